"""Watch streams: watchers, sessions and the hub that feeds them. No I/O."""
