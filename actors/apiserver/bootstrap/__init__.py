"""Objects that an API server creates at its start and keeps: roles, the kubernetes service, allocated addresses."""
