"""Rules of a pod's spec."""
