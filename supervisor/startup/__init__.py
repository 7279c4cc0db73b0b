"""Check and prepare a start: directories, locks, the API's port, settings, and whether a node may join its plane."""
