"""Making and ending sandboxes and containers: what the runtime is told of each."""
