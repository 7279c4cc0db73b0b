"""CEL, checked once and bounded: selectors of devices (resource.k8s.io), rules of custom resources (`rules`).

`programs.compiled(text)` is the way in for selectors. The native library behind both is imported with the first
expression, not before.
"""
