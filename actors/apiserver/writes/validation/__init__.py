"""Field validation: unknown and duplicate fields, wrong types."""
