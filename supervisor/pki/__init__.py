"""The plane's own certificates and the admin's kubeconfig."""
