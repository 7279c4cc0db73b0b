"""The node's pod workers: desired state from the API, actual state from pleg, and the only writer of pod status."""
