"""Additional printer columns and their JSONPath."""
