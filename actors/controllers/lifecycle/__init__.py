"""Controllers of namespaces and nodes, and garbage collection of pods."""
