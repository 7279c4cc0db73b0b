"""Run seeds of the simulation: arguments, forked processes, shrinking of faults, timelines, retained seeds."""
