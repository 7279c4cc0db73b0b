"""The fingerprint of a set of pods, as topology-aware schedulers compare it (annotation
topology.node.k8s.io/fingerprint): whether scheduler and exporter speak of the same pods. Pure."""

from collections.abc import Iterable

from xxhash import xxh64_hexdigest, xxh64_intdigest

VERSION = "pfp0v001"


def pod_hash(namespace: str, name: str) -> int:
    return xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode()))


def fingerprint(hashes: Iterable[int]) -> str:
    """Return the fingerprint of the pods with these hashes, in any order."""
    whole = b"".join(one.to_bytes(8, "little") for one in sorted(hashes))
    return f"{VERSION}{xxh64_hexdigest(whole)}"
