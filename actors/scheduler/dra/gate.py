"""What a pod's claims ask for, and whether any node could give it. Pure; upstream's words."""

from collections.abc import Callable, Mapping

import msgspec

from actors.scheduler.dra.errors import NotReady
from actors.scheduler.dra.extended import named_claim
from actors.scheduler.dra.types import CLASSES, DEVICES, Demand, claim_topic
from protocols.dra.allocator import Catalog, Claim, claim_of
from protocols.dra.allocator.checks import missing_class
from protocols.dra.pods import allocation_of, claim_entries, claim_names, from_template, owned_by, results_of
from protocols.dra.tolerations import tolerates
from protocols.dra.types import NO_EXECUTE, DeviceClass, DeviceId
from protocols.kube.meta import Object, key_of, namespace_of, terminating

NOT_AVAILABLE = "resourceclaim not available on the node"


class Gate:
    def __init__(
        self, claim: Callable[[str], Object | None], promised: Callable[[str], bool],
        classes: Mapping[str, DeviceClass], catalog: Catalog, taints: bool,
    ) -> None:  # fmt: skip
        self._claim, self._promised, self._classes = claim, promised, classes
        self._catalog, self._taints = catalog, taints

    def demand(self, pod: Object) -> Demand:
        """Raises NotReady."""
        found = [self._found(pod, entry, name) for entry, name in claim_names(pod).items() if name != ""]
        found += self._extended(pod)
        claims = list({key_of(claim): claim for claim in found}.values())
        allocated = tuple(claim for claim in claims if allocation_of(claim) is not None)
        for claim in allocated if self._taints else ():
            self._check_taints(claim)
        open_ = [claim for claim in claims if allocation_of(claim) is None]
        wanted = tuple(self._wanted(claim) for claim in open_)
        return Demand(allocated, wanted, msgspec.json.encode([claim.get("spec") for claim in open_]) if open_ else b"")

    def _found(self, pod: Object, entry: str, name: str | None) -> Object:
        if name is None:
            raise NotReady(f'pod "{key_of(pod)}": ResourceClaim not created yet', frozenset(), quiet=True)
        key = f"{namespace_of(pod)}/{name}"
        topics = frozenset((claim_topic(key),))
        claim = self._claim(key)
        if claim is None:
            raise NotReady(f'resourceclaim "{name}" not found', topics, quiet=_generated(pod, entry))
        if terminating(claim):
            raise NotReady(f'resourceclaim "{name}" is being deleted', topics)
        if _generated(pod, entry) and not owned_by(claim, pod):
            raise NotReady(f"ResourceClaim {key} was not created for Pod {key_of(pod)} (Pod is not owner)", topics)
        return claim

    def _extended(self, pod: Object) -> list[Object]:
        """The claim for its extended resources, once that is written down and as long as it is good."""
        claim = self._claim(named_claim(pod)) if named_claim(pod) else None
        good = claim is not None and not terminating(claim) and owned_by(claim, pod) and allocation_of(claim)
        return [claim] if claim is not None and good else []

    def _wanted(self, claim: Object) -> Claim:
        topic = claim_topic(key_of(claim))
        wanted = claim_of(claim)
        if self._promised(wanted.uid):
            raise NotReady(
                f"resource claim {wanted.key} is in the process of being allocated", frozenset((topic,)), quiet=True
            )
        if why := missing_class(wanted, self._classes):
            raise NotReady(why, frozenset((CLASSES, topic)))
        return wanted

    def _check_taints(self, claim: Object) -> None:
        """Nobody starts to use a device that its users are being driven off."""
        for result in results_of(claim):
            offer = self._catalog.offer(DeviceId(result["driver"], result["pool"], result["device"]))
            for taint in offer.device.taints if offer else ():
                borne = any(tolerates(each, taint) for each in result.get("tolerations") or ())
                if taint.effect == NO_EXECUTE and not borne and offer is not None:
                    raise NotReady(
                        f'resourceclaim "{key_of(claim)}": device {offer.id} has untolerated taint {{{taint.key}:'
                        f" {taint.value}}}",
                        frozenset((DEVICES, claim_topic(key_of(claim)))),
                    )


def _generated(pod: Object, entry: str) -> bool:
    return any(from_template(each) for each in claim_entries(pod) if each.get("name") == entry)
