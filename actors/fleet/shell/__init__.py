"""What a fleet does with the API: registers nodes, follows pods, writes statuses, leases, slices and events."""
