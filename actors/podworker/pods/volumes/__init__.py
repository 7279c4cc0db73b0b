"""Volumes of pods: where they are, which files they hold, and how they are written."""
