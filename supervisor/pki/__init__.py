"""Certificates of the plane and its nodes, and the kubeconfigs that hold them."""
