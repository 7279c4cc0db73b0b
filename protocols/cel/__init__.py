"""Selectors of devices in CEL (resource.k8s.io): checked once, bounded, evaluated against one device at a time.

`programs.compiled(text)` is the way in. The native library behind it is imported with the first expression, not before.
"""
