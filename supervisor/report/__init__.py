"""Reports of a running supervisor: on the terminal, to systemd, as status, as metrics and health over HTTP."""
