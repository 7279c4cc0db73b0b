"""Asynchronous parts of the watch cache: follow a store, publish streams on the bus, check and compact."""
