"""The evaluator: closures made of a checked tree, which count upstream's cost while they run."""
