"""Built-in resources, one file per family: columns, defaults, validation."""
