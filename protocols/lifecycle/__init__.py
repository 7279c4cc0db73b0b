"""Rules by which a node treats pods and devices: pure functions of state, for real and simulated nodes."""
