"""apps/v1: kinds and their strategies."""
