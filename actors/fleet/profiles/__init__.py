"""Profiles: what the simulated nodes of a fleet are made of. Pure: no API, no clock."""
