"""Functions that Kubernetes adds to the engine: each library a file."""
