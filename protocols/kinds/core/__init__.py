"""Kinds of the core group that are no workloads: configuration, events, namespaces, nodes, limits and quotas."""
