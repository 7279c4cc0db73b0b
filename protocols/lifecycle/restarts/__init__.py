"""Which containers start, end and start again, and when."""
