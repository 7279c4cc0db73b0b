"""The node profile: everything that runs pods and gives out devices on one node, with plugins, a driver and agents."""
