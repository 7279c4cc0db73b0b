"""The CPU manager's static policy: exclusive CPUs and the shared pool. Pure."""
