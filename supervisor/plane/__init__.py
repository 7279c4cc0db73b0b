"""The supervisor process, from its start to its end."""
