"""Clients of the other actors (on the bus) and of the API server."""
