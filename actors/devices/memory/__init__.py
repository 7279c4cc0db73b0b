"""The memory manager's static policy: memory and huge pages of Guaranteed pods, bound to NUMA nodes. Pure."""
