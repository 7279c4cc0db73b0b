"""HTTP listener for untrusted networks: bounds open connections and the cost of unauthenticated clients."""
