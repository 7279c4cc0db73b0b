"""Roles and bindings, their rules, and the roles that every cluster has."""
