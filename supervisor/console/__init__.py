"""The live console of a running plane: a client of its bus, its supervisors and its API; no actor knows of it."""
