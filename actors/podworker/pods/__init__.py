"""One worker per pod: what it looks at, what it does next, and how a pod ends."""
