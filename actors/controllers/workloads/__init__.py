"""Controllers of DaemonSets, Deployments, ReplicaSets and Jobs."""
