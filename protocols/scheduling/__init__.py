"""Rules by which a node has room for a pod, from their API objects. Pure."""
