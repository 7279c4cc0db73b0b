"""Rules in CEL (x-kubernetes-validations): checked when a definition is written, evaluated when its objects are.

The engine is imported with the first rule: a plane whose definitions have none never loads it.
"""
