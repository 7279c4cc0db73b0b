"""Serve the pod resources watch on a node that runs the real kubelet: see actor.py."""
