"""Watches: what each client may see of a change, in which order, and how its stream begins and ends."""
