"""The actor that records a plane to a file."""
