"""Names and ids that identify the owner of a cluster, and what replaces them. Pure.

Equal texts get equal replacements, so that selectors and references between devices still match. Kept are names in
domains of Kubernetes and of vendors, and plain words that contain none of the owner's.
"""

import re
from collections.abc import Iterable, Iterator

WELL_KNOWN = (
    "amazonaws.com", "amd.com", "azure.com", "dra.cpu", "dra.memory", "dra.net", "example.com", "gke.io", "google.com",
    "habana.ai", "intel.com", "k8s.io", "kubernetes.io", "mellanox.com", "nvidia.com", "openshift.io", "x-k8s.io",
)  # fmt: skip
"""Domains, with those below them, that many clusters have."""
HARDWARE_LABELS = (
    "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "kubernetes.io/arch",
    "kubernetes.io/os", "node-role.kubernetes.io/", "node.kubernetes.io/instance-type", "nvidia.com/", "amd.com/",
    "feature.node.kubernetes.io/",
)  # fmt: skip
"""Beginnings of the labels whose values describe the machine; those of other labels are their owner's words."""
PLAIN_VALUES = ("", "true", "false")
GENERIC = frozenset((
    "accelerator", "accelerators", "cluster", "com", "compute", "cpu", "cpus", "dev", "device", "devices", "dra",
    "driver", "drivers", "ec2", "gpu", "gpus", "internal", "k8s", "kube", "lan", "local", "memory", "net", "network",
    "nic", "node", "nodes", "org", "svc", "www",
))  # fmt: skip
"""Parts of domains that identify nobody."""
SHORTEST_WORD, LONGEST_TEXT = 3, 256
_WORD = re.compile(r"[a-z0-9]+")
_ID_NAME = re.compile(r"uuid|guid|serial", re.IGNORECASE)
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-"  # the beginning of a UUID
    r"|[0-9a-f]{16}"  # a long number in base 16
    r"|([0-9a-f]{1,4}:){3}|([0-9a-f]{2}-){5}"  # addresses of network interfaces; a PCI address has two colons
    r"|(?<!\d)\d{1,3}(\.\d{1,3}){3}(?!\d)",
    re.IGNORECASE,
)


def is_well_known(domain: str) -> bool:
    """Return True for a domain, or one below it, that identifies no owner."""
    return any(domain == known or domain.endswith(f".{known}") for known in WELL_KNOWN)


def domain_of(name: str) -> str:
    """Return the domain of a qualified name, "" without one."""
    return name.rpartition("/")[0]


def is_id(text: str, name: str = "") -> bool:
    """Return True for the number of a single thing, by its form or by the name of its attribute."""
    return bool(_ID.search(text) or _ID_NAME.search(name.rpartition("/")[2]))


def _telling(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.lower() for word in words if len(word) >= SHORTEST_WORD) - GENERIC


def _parts(text: str) -> Iterator[str]:
    """Yield all runs of whole words in a text."""
    spans = [match.span() for match in _WORD.finditer(text[:LONGEST_TEXT])]
    for at, (start, _) in enumerate(spans):
        yield from (text[start:end] for _, end in spans[at:])


class OwnerNames:
    """Replacements, numbered by kind in the order of their first use. Bounded by the texts that are replaced."""

    def __init__(self, nodes: Iterable[str], domains: Iterable[str]) -> None:
        """`domains`: all of the cluster's; well-known ones are ignored."""
        self._replaced: dict[tuple[str, str], dict[str, str]] = {}
        self.nodes = {name: f"node-{at}" for at, name in enumerate(nodes)}
        """New names of nodes by their old ones."""
        self._own_values = dict(self.nodes)
        below = {name.partition(".")[2] for name in self.nodes}
        parts = {part for domain in below.union(domains) if not is_well_known(domain) for part in domain.split(".")}
        self._words = _telling(parts)
        self._hosts = _telling(host for name in self.nodes for host in (name, name.partition(".")[0]))

    def replacement(self, kind: str, text: str, scope: str = "") -> str:
        """Return `KIND-NUMBER`. Numbers begin at 0 in each scope, in which each text has its own."""
        known = self._replaced.setdefault((kind, scope), {})
        return known.setdefault(text, f"{kind}-{len(known)}")

    def has_owner(self, text: str) -> bool:
        """Return True if the text contains a word of the owner's domains, or the name of a node."""
        lower = text.lower()
        return any(word in lower for word in self._words) or any(part in self._hosts for part in _parts(lower))

    def domain(self, domain: str) -> str:
        return domain if is_well_known(domain) else f"{self.replacement('domain', domain)}.example.com"

    def key(self, kind: str, name: str) -> str:
        """Return the key of a label or taint, or the name of a resource or condition."""
        domain, slash, own = name.rpartition("/")
        if slash and is_well_known(domain) and not self.has_owner(own):
            return name
        return f"{self.domain(domain) if slash else 'example.com'}/{self.replacement(kind, own)}"

    def add_own_value(self, node: str, value: str) -> None:
        """Replace a value that only labels of one node have, if it is an id or has a name, by one after that node."""
        if value not in self._own_values and (is_id(value) or self.has_owner(value)):
            self._own_values[value] = self.replacement(f"{self.nodes[node]}-value", value)

    def label_value(self, key: str, value: str) -> str:
        """Return the value of a label or taint."""
        if value in self._own_values:
            return self._own_values[value]
        is_kept = value in PLAIN_VALUES or (key.startswith(HARDWARE_LABELS) and not is_id(value))
        return value if is_kept and not self.has_owner(value) else self.replacement("value", value)
