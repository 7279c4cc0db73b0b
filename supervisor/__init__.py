"""What starts, watches, restarts and scales actors, and the command line. Imports protocols, never an actor."""
