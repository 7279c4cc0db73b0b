"""The status of a pod: phase, conditions, containers and the health of their devices."""
