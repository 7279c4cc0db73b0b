"""Disruption budgets and network policies."""
