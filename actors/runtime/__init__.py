"""The embedded container runtime: CRI v1 over plain Linux processes and simulated ("hollow") containers."""
