"""Approve kubelets' certificate requests, sign approved ones with the plane's CA, remove old ones."""
