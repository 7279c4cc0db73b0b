"""Admission by users' own rules: policies in CEL and webhooks. A write that none of them matches costs one lookup."""
