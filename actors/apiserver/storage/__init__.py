"""Objects in the etcd API: one store or several."""
