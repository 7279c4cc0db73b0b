"""Limits on the objects of a namespace: disruption budgets, limit ranges, network policies, quotas."""
