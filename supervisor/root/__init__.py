"""Files below ROOT: directories and their permissions, locks, logs, sockets and mounts."""
