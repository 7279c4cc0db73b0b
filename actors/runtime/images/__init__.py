"""Images that were imported: their files as directories, and what their configuration says of a container."""
