"""What lies below ROOT: locks, logs, sockets left over, mounts."""
