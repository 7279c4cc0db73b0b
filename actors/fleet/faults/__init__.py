"""Bad days of a fleet: faults of any share of its nodes, by scripts and while it runs."""
