"""One page of metrics for every process of a plane."""
