"""The status of a pod as the API shows it, and how it gets there."""
