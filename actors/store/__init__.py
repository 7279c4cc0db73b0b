"""The embedded store: the etcd v3 API over one SQLite file.

Floors, lowest first: model (types, errors, options), mvcc (state in memory and pure evaluation of requests), file
(SQLite), watch (streams, no I/O), engine (group commit), rpc (etcd's services), server (gRPC and the private endpoint).
"""
