"""Before anything runs: is it us, are flags, root, port and locks fit, what was left by a plane that was killed."""
