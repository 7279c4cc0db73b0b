"""What a container's environment variables say, and where they have it from."""
