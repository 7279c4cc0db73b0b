"""Node lifecycle: heartbeats, taints by condition, and eviction of pods from lost nodes."""
