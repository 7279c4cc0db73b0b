"""Plan of the next steps for a pod: which containers start, restart or stop, and when. Pure."""
