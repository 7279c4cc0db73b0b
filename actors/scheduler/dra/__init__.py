"""Claims of devices in scheduling: what is free, what fits where, and the writes that make it so."""
