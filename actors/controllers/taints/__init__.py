"""Device taint eviction: delete pods whose devices are tainted NoExecute."""
