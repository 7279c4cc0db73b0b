"""Two ways to run a container: as Linux processes below a shim, or simulated."""
