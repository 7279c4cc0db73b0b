"""The vocabulary of claims in scheduling."""

from dataclasses import dataclass

from actors.scheduler.dra.extended import ExtendedClaim
from protocols.dra.allocator import Claim, Pick
from protocols.kube.meta import Object

DEVICES = "devices"
"""Topic: a device came, changed or got free."""
CLASSES = "classes"


def claim_topic(key: str) -> str:
    return f"claim {key}"


@dataclass(frozen=True)
class Demand:
    """What a pod's claims ask of its node."""

    allocated: tuple[Object, ...] = ()
    wanted: tuple[Claim, ...] = ()
    """To be allocated, in the pod's order."""
    signature: bytes = b""
    """Equal for pods that want the same."""
    extended: ExtendedClaim | None = None
    """The last of `wanted`, if that does not exist in the API yet."""

    @property
    def empty(self) -> bool:
        return not self.allocated and not self.wanted


@dataclass(frozen=True)
class Fit:
    """What one node answers."""

    reason: str = ""
    """Why it cannot be; empty if it can."""
    picks: tuple[tuple[Pick, ...], ...] = ()
    score: int = 0
    """Of prioritized requests."""


@dataclass(frozen=True)
class Assignment:
    """What is to be written to one claim before the pod is bound."""

    key: str
    uid: str
    allocation: Object | None
    """None = it is allocated already."""
    extended: ExtendedClaim | None = None
    """The claim is to be made first."""
