"""What pods and the node use: measured when somebody asks, never on a timer."""
