"""Device plugins: registration, connections, and the devices they report."""
