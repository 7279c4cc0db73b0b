"""Mistakes that somebody could make, each of which the simulation must find: `make mutants`."""
