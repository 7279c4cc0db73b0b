"""Replicas of the streams that clients list and watch: encoded state, journal, watchers."""
