"""The embedded store: the etcd v3 API over one SQLite file."""
