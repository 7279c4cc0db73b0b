"""Live connections to containers: what Exec, Attach and PortForward answer with a URL for. Loaded at the first use."""
