"""resource.k8s.io: defaults, validation and versions of its objects."""
