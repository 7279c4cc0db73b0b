"""The Kubernetes REST API over HTTPS, served from replicas of the watch cache; `actor.py` wires it."""
