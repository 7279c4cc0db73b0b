"""Endpoints of services. Work starts with the first service besides `kubernetes`."""
