"""Where things lie in the machine: hints of what a container's resources could share, merged into one choice. Pure."""
