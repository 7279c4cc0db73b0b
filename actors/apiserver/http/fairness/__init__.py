"""API priority and fairness: which request executes now, which waits, which gets 429."""
