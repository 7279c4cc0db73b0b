"""Structured allocation: choose devices of a node for the claims of a pod. Pure.

`Catalog` holds the patched slices and returns the pools that a node reaches; `Attempt` searches one node for all claims
of a pod; `allocation()` returns the AllocationResult for a claim's status. Names are those of upstream's allocator
(k8s.io/dynamic-resource-allocation/structured) where it has one.
"""
