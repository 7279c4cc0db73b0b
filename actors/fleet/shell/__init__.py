"""Clients of the API: they register nodes, follows pods, writes statuses, leases, slices and events."""
