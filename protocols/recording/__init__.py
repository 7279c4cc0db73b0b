"""Recordings of a plane: the file format, its writer and its reader. See docs/reference/recording.md."""
