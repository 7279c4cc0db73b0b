"""The control profile: store, watch cache, replicas, API servers and their clients, with what they promise."""
