"""The watch cache: recent changes of every resource, taken from the etcd API, told on the bus."""
