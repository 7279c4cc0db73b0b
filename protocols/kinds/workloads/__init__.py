"""What controllers of pods have in common, and the controllers of the core group."""
