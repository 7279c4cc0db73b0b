"""The running store: group commit, compaction, and the parts the services share."""
