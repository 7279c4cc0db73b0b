"""Representations: content negotiation, JSON, YAML, protobuf, tables."""
