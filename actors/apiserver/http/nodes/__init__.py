"""Requests that a node answers: logs, exec, attach, port-forward, usage."""
