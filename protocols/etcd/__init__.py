"""Client side of the etcd v3 API, for watchcache and apiserver."""
