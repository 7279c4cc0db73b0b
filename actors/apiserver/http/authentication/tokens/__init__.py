"""Bearer tokens: of service accounts, signed here, and of the static token file."""
