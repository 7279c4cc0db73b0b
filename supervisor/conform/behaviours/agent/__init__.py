"""The behaviours of agents, a script each."""
