"""DRA devices for the command line, read from an API or from files, and patched here with the code of the scheduler."""
