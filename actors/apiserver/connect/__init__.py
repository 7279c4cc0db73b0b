"""Requests that end at a node: logs, exec, attach, port-forward. Checked here, answered there, passed on in between."""
