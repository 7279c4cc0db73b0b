"""Common parts of kinds whose controllers make pods, and the controllers of the core group."""
