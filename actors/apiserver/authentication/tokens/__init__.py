"""Bearer tokens: those of service accounts, signed here, and those of a file."""
