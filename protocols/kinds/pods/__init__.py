"""Pods: defaults, rules, rules of change and of status, columns, subresources."""
