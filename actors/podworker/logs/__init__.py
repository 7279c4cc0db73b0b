"""The log files of containers: kept small, and removed with what they are of."""
