"""The node's HTTPS endpoint: logs, exec, attach, port-forward and stats, for the API server only."""
