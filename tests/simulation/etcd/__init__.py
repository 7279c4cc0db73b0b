"""A model of a three-member etcd, which clients reach through their own transport: protocols/etcd/transport."""
