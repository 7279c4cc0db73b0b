"""What patches and rules make of devices: which of them apply, whose value wins, and what comes of it. Pure."""
