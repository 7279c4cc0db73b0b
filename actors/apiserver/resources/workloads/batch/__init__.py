"""batch/v1: kinds, strategies and rules."""
