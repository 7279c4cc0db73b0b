"""Pod lifecycle event generator: what happened to which pod, and each pod's runtime status."""
