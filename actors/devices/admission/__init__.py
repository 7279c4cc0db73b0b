"""From a pod's request to its grants: plan over its containers, choice of devices, the plugins' answers merged."""
