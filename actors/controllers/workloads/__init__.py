"""Controllers of DaemonSets, Deployments, ReplicaSets, ReplicationControllers and Jobs."""
