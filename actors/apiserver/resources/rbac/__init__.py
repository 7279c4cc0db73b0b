"""rbac.authorization.k8s.io: its resources and the default roles."""
