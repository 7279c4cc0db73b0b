"""Rules of a pod's spec, by its parts."""
