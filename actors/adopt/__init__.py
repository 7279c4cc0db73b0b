"""The source of the watch on a node that runs the real kubelet: see actor.py."""
