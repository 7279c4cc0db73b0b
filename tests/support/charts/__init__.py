"""Programs and manifests by the shape of what vendors ship; their files are not copied."""
