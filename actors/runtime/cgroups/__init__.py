"""Limits of cpu, memory and processes where a writable cgroup hierarchy exists, version 1 or 2; none elsewhere."""
