"""Probes: is a container started, ready, alive? Pods without any have no task and no timer here."""
