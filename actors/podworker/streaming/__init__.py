"""The node's own endpoint: container logs and live connections, for the API server and nobody else."""
