"""The fingerprint of a set of pods, as topology-aware schedulers compare it (annotation
topology.node.k8s.io/fingerprint): whether scheduler and exporter speak of the same pods. Pure."""

from collections.abc import Iterable

from protocols.podresources.xxhash64 import xxhash64

VERSION = "pfp0v001"


def pod_hash(namespace: str, name: str) -> int:
    return xxhash64(name.encode(), xxhash64(namespace.encode()))


def fingerprint(hashes: Iterable[int]) -> str:
    """Of the pods' hashes, in any order."""
    whole = b"".join(one.to_bytes(8, "little") for one in sorted(hashes))
    return f"{VERSION}{xxhash64(whole):016x}"
