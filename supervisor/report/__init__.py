"""How a running supervisor reports: on the terminal, to systemd, as status, as metrics and health over HTTP."""
