"""Controllers: reconcile namespaces, nodes, pods, owner references, resource claims and device taints."""
