"""GET and LIST: from the replica or the store, in pages."""
