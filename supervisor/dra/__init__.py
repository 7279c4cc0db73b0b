"""What the command line shows of DRA devices: read from an API or from files, patched here, by the same code that the
scheduler has."""
