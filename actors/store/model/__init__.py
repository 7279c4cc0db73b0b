"""Types, errors and options of the store."""
