"""The demand of a pod's claims, and the checks that hold for every node. Pure; messages are upstream's."""

from collections.abc import Callable, Mapping
from operator import itemgetter

import msgspec

from actors.scheduler.model.errors import ClaimsNotReady
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import Claim, claim_of
from protocols.dra.allocator.extended import ExtendedClaim
from protocols.dra.allocator.plan import missing_class
from protocols.dra.allocator.types import Holdings, Pick
from protocols.dra.pods import (
    allocation_of,
    claim_entries,
    claim_names,
    extended_claim_key,
    is_from_template,
    is_owned_by,
    results_of,
)
from protocols.dra.types import DeviceClass, DeviceId
from protocols.kinds import views
from protocols.kube.meta import key_of, namespace_of, terminating
from protocols.kube.taints import NO_EXECUTE, tolerated

DEVICES = "devices"
"""Topic: a device appeared, changed or was freed."""
CLASSES = "classes"


def claim_topic(key: str) -> str:
    """Return the topic that wakes pods which wait for this claim."""
    return f"claim {key}"


class Demand(msgspec.Struct, frozen=True):
    """Requirements of a pod's claims on its node."""

    allocated: tuple[views.ResourceClaim, ...] = ()
    unallocated: tuple[Claim, ...] = ()
    """Claims to allocate, in the pod's order."""
    signature: bytes = b""
    """Equal for pods with equal demands."""
    extended: ExtendedClaim | None = None
    """Set if the last of `unallocated` does not exist in the API yet."""
    kept: Holdings = msgspec.field(default_factory=dict)
    """Devices and shares that are kept for nominated pods."""

    def keeping(self, kept: Holdings) -> "Demand":
        """Return the demand of a pod that must leave devices to nominated pods."""
        if not kept or not self.unallocated:
            return self
        return msgspec.structs.replace(
            self,
            kept=kept,
            signature=msgspec.json.encode([self.signature.decode(), sorted(kept.items(), key=itemgetter(0))]),
        )

    @property
    def is_empty(self) -> bool:
        return not self.allocated and not self.unallocated


class Fit(msgspec.Struct, frozen=True):
    """Result of one node."""

    reason: str = ""
    """Why the node is rejected; empty if it fits."""
    picks: tuple[tuple[Pick, ...], ...] = ()
    score: int = 0
    """Score of prioritized requests."""


class Assignment(msgspec.Struct, frozen=True):
    """A write to one claim before its pod is bound."""

    key: str
    uid: str
    allocation: views.AllocationResult | None
    """None if the claim is allocated already."""
    extended: ExtendedClaim | None = None
    """Set if the claim must be created first."""


NOT_AVAILABLE = "resourceclaim not available on the node"


class DemandBuilder:
    """Reads what a pod's claims require, from claims and classes as they are now."""

    def __init__(
        self, claim: Callable[[str], views.ResourceClaim | None], reserved: Callable[[str], bool],
        classes: Mapping[str, DeviceClass], catalog: Catalog, taints: bool,
    ) -> None:  # fmt: skip
        self._claim, self._reserved, self._classes = claim, reserved, classes
        self._catalog, self._taints = catalog, taints

    def demand(self, pod: views.Pod) -> Demand:
        """Raises ClaimsNotReady."""
        generated = {str(entry.get("name")) for entry in claim_entries(pod) if is_from_template(entry)}
        names = claim_names(pod)
        claimed = [self._found(pod, name, entry in generated) for entry, name in names.items() if name != ""]
        claimed += self._extended(pod)
        claims = list({key_of(claim): claim for claim in claimed}.values())
        allocated = tuple(claim for claim in claims if allocation_of(claim) is not None)
        for claim in allocated if self._taints else ():
            self._check_taints(claim)
        pending = [claim for claim in claims if allocation_of(claim) is None]
        unallocated = tuple(self._checked(claim) for claim in pending)
        signature = msgspec.json.encode([claim.get("spec") for claim in pending]) if pending else b""
        return Demand(allocated, unallocated, signature)

    def _found(self, pod: views.Pod, name: str | None, generated: bool) -> views.ResourceClaim:
        if name is None:
            raise ClaimsNotReady(f'pod "{key_of(pod)}": ResourceClaim not created yet', frozenset(), expected=True)
        key = f"{namespace_of(pod)}/{name}"
        topics = frozenset((claim_topic(key),))
        claim = self._claim(key)
        if claim is None:
            raise ClaimsNotReady(f'resourceclaim "{name}" not found', topics, expected=generated)
        if terminating(claim):
            raise ClaimsNotReady(f'resourceclaim "{name}" is being deleted', topics)
        if generated and not is_owned_by(claim, pod):
            raise ClaimsNotReady(
                f"ResourceClaim {key} was not created for Pod {key_of(pod)} (Pod is not owner)", topics
            )
        return claim

    def _extended(self, pod: views.Pod) -> list[views.ResourceClaim]:
        """Return the claim for extended resources once pod status names it, if it is still valid."""
        claim = self._claim(extended_claim_key(pod)) if extended_claim_key(pod) else None
        valid = claim is not None and not terminating(claim) and is_owned_by(claim, pod) and allocation_of(claim)
        return [claim] if claim is not None and valid else []

    def _checked(self, claim: views.ResourceClaim) -> Claim:
        topic = claim_topic(key_of(claim))
        wanted = claim_of(claim)
        if self._reserved(wanted.uid):
            raise ClaimsNotReady(
                f"resource claim {wanted.key} is in the process of being allocated", frozenset((topic,)), expected=True
            )
        if message := missing_class(wanted, self._classes):
            raise ClaimsNotReady(message, frozenset((CLASSES, topic)))
        return wanted

    def _check_taints(self, claim: views.ResourceClaim) -> None:
        """Raise ClaimsNotReady if an allocated device has a NoExecute taint that the claim does not tolerate."""
        for result in results_of(claim):
            device = self._catalog.device(DeviceId(result["driver"], result["pool"], result["device"]))
            for taint in device.spec.taints if device else ():
                borne = tolerated(taint, result.get("tolerations") or ())
                if taint.effect == NO_EXECUTE and not borne and device is not None:
                    raise ClaimsNotReady(
                        f'resourceclaim "{key_of(claim)}": device {device.id} has untolerated taint {{{taint.key}:'
                        f" {taint.value}}}",
                        frozenset((DEVICES, claim_topic(key_of(claim)))),
                    )
