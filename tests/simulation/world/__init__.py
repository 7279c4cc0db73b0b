"""The simulated world: virtual time, processes, network, threads. Everything in it is decided by one seed."""
