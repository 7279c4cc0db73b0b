"""Eviction of pods whose devices were tainted NoExecute."""
