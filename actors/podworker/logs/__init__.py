"""Log files of containers: rotation and reading."""
