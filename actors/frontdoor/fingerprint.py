"""The fingerprint of a set of pods, by which a scheduler and an exporter know that they see the same pods. Pure.

Topology-aware schedulers compare it with the annotation topology.node.k8s.io/fingerprint.
"""

from collections.abc import Iterable

from xxhash import xxh64_hexdigest, xxh64_intdigest

VERSION = "pfp0v001"


def pod_hash(namespace: str, name: str) -> int:
    return xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode()))


def fingerprint(hashes: Iterable[int]) -> str:
    """Return the fingerprint of the pods with these hashes, in any order."""
    whole = b"".join(one.to_bytes(8, "little") for one in sorted(hashes))
    return f"{VERSION}{xxh64_hexdigest(whole)}"
