"""What a running supervisor tells: the person in front of it, systemd, the command line."""
