"""The pod worker: runs this node's pods and reports pod status, node status and the node lease."""
