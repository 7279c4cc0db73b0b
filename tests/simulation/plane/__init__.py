"""The plane profile: control and two nodes in one world, and users who talk to its API."""
