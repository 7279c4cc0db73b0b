"""Rules of pods about other pods: inter-pod affinity and topology spread, as filters and as scores. Pure."""
