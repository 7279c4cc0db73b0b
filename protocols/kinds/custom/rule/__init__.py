"""Validation rules in CEL (x-kubernetes-validations), checked with the definition, evaluated with each object.

The engine is imported with the first rule: a plane whose definitions have none never loads it.
"""
