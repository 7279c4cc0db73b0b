"""Startup, readiness and liveness probes. Pods without any have no task and no timer here."""
