"""Types, errors and dependencies that every part of podworker shares. Imports nothing above it."""
