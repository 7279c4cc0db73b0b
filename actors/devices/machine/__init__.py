"""CPUs and memory of the machine: detection, placement, and kubelet's state files."""
