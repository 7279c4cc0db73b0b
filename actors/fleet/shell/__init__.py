"""Clients of the API: they register nodes, follow pods, write statuses, leases, slices and events."""
