"""What a node does with pods and devices, as functions of state: pure, the same for a real node and simulated ones."""
