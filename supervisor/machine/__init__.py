"""Commands about this installation and this machine, which need no plane: `nodeplane version` and `nodeplane check`."""
