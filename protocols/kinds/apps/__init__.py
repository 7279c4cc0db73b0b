"""Deployments, replica sets, stateful sets and daemon sets."""
