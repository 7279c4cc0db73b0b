"""The CPU manager's static policy: whole CPUs for those who may have them, a shared pool for everybody else. Pure."""
