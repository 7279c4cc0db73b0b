"""ReplicaSets and Deployments."""
