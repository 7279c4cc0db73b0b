"""The SQLite file: log, checks, reads of the past, upkeep and snapshots."""
