"""Requests served by nodes: logs, exec, attach, port-forward, usage."""
