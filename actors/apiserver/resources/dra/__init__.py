"""resource.k8s.io: how its objects are filled, checked and shown in each version."""
