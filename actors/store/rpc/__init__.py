"""The etcd v3 services: KV, Watch, Lease, Maintenance and Cluster."""
