"""How events of the pod resources watch are shown."""
