"""Whether what a permitted request writes may be written by its author."""
