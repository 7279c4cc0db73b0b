"""Environment variables of containers and the objects they refer to."""
