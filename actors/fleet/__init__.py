"""fleet: simulated nodes whose devices live."""
