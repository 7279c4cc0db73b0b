"""Kinds of admissionregistration.k8s.io: policies in CEL, their bindings, webhook configurations."""
