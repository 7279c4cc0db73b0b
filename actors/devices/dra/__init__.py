"""DRA on the node: drivers, the claims they prepare for pods, and the health of their devices."""
