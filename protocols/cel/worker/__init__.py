"""CEL in a process of its own: what is asked, how pure code asks, and how the worker answers.

`asking` is what pure code uses, `client` what its shell uses, `local` computes answers; only it reaches the native
library, in the worker and in programs without one.
"""
