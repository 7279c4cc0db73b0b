"""Kubernetes object conventions and a small API client; knows no actor."""
