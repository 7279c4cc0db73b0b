"""How large a pod's containers are, and how that changes while they run."""
