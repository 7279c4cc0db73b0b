"""The scheduler's vocabulary."""

from dataclasses import dataclass, field
from typing import Any

Amounts = dict[str, int]
"""Resource name -> nano-units (as protocols.kube.quantity keeps them); `pods` counts pods."""


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class NodeView:
    """What placement needs of a Node object."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    ready: bool
    unschedulable: bool


@dataclass(frozen=True)
class PodView:
    """What placement needs of a Pod object."""

    uid: str
    key: str
    """namespace/name."""
    requests: Amounts
    node_selector: dict[str, str]
    affinity_terms: tuple[dict[str, Any], ...]
    """nodeSelectorTerms of required node affinity: one of them must match; empty = no demand."""
    tolerations: tuple[dict[str, Any], ...]
    claims: bool
    """Asks for resource claims."""


@dataclass
class NodeLoad:
    """A node and what is promised to the pods on it."""

    view: NodeView
    used: Amounts = field(default_factory=dict)
