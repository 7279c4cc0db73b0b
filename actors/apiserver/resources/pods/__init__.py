"""Pods: defaults, validation, printing and subresources."""
