"""The disk of the simulation."""
