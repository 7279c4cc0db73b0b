"""Priority and fairness: which request may execute now, which waits, which gets 429."""
