"""The behaviours of agents."""
