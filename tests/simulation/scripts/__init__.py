"""The crash scripts of tests/crash/scripts, played by the product's own player on a simulated plane."""
