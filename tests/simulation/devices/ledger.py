"""Claims and the pods that use them, commit by commit: who holds a device, and who may let it go."""

from collections.abc import Iterable, Iterator
from typing import Any

from protocols.dra.pods import (
    allocation_of,
    consumers,
    device_of,
    has_finalizer,
    is_reserved_for,
    results_of,
    used_claims,
)
from protocols.dra.types import DeviceId
from protocols.kube.meta import Object, terminating, uid_of
from protocols.kube.pods import is_finished, node_of
from tests.simulation.model import Broken
from tests.simulation.workloads.flow import Written


class Ledger:
    """The claims and pods of one namespace as they are after the commits that it took."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        """By name, as the claims."""

    def take(self, each: Written) -> Iterator[Broken]:
        known = {"pods": self.pods, "resourceclaims": self.claims}.get(each.resource)
        if known is None:
            return
        if each.obj is None:
            known.pop(each.name, None)
        else:
            known[each.name] = each.obj
        if each.resource == "pods":
            yield from self._bound(each)
        else:
            yield from self._claim(each)

    def users(self, device: DeviceId) -> list[str]:
        """Return the names of pods that run with a device."""
        return [name for name, pod in self.pods.items() if runs(pod) and device in self.devices(pod)]

    def devices(self, pod: Any) -> set[DeviceId]:
        """Return the devices that a pod has for itself; shares of others are counted elsewhere."""
        return self._devices(used_claims(pod))

    def _devices(self, claims: Iterable[str]) -> set[DeviceId]:
        results = (result for name in claims for result in results_of(self.claim(name)))
        return {device_of(result) for result in results if not result.get("shareID")}

    def claim(self, name: str) -> Any:
        """Return a claim; an empty object if it is not there."""
        return self.claims.get(name) or {}

    def _bound(self, each: Written) -> Iterator[Broken]:
        """A pod is bound with its claims, each reserved for it, and with devices that nobody else runs with."""
        pod: Any = each.last
        where = f"{each.name} at {each.revision}"
        if not runs(each.obj) or node_of(each.before or {}):
            return
        for name in used_claims(pod):
            if not is_reserved_for(self.claim(name), uid_of(pod)):
                yield Broken("a pod that runs has its claims", f"{where} is bound without {name}")
        for device in self.devices(pod):
            if any(device not in self._shared(pod, other) for other in self._others(device, each.name)):
                yield Broken("a device is given once", f"{device} at {each.revision}: {self.users(device)}")

    def _others(self, device: DeviceId, name: str) -> list[Any]:
        return [self.pods[user] for user in self.users(device) if user != name]

    def _shared(self, pod: Any, other: Any) -> set[DeviceId]:
        """Return the devices of claims that both pods name."""
        return self._devices(set(used_claims(pod)) & set(used_claims(other)))

    def _claim(self, each: Written) -> Iterator[Broken]:
        claim: Any = each.obj or {}
        before: Any = each.before or {}
        where = f"{each.name} at {each.revision}"
        if allocation_of(before) is not None and each.obj is None:
            yield Broken("an allocated claim stays", f"{where} is gone")
        if allocation_of(claim) is not None and not has_finalizer(claim):
            yield Broken("an allocated claim stays", f"{where} has no finalizer")
        if consumers(claim) and allocation_of(claim) is None:
            yield Broken("what is reserved is allocated", where)
        left = {str(consumer["uid"]) for consumer in consumers(claim)}
        for consumer in consumers(before):
            pod = self.pods.get(str(consumer["name"]))
            if consumer["uid"] not in left and runs(pod) and uid_of(pod or {}) == consumer["uid"]:
                yield Broken("a pod that runs has its claims", f"{where} is released by {consumer['name']}")

    def at_end(self) -> Iterator[Broken]:
        """Nothing is held by pods that are gone."""
        for name, claim in self.claims.items():
            uids = {uid_of(pod) for pod in self.pods.values()}
            if gone := [each["name"] for each in consumers(claim) if each["uid"] not in uids]:
                yield Broken("converged", f"claim {name} is reserved for {gone}, which are gone")
            if terminating(claim) and not consumers(claim):
                yield Broken("converged", f"claim {name} is still to end")
            if allocation_of(claim) is not None and not consumers(claim):
                yield Broken("converged", f"claim {name} is allocated, and nobody uses it")


def runs(pod: Object | None) -> bool:
    return pod is not None and bool(node_of(pod)) and not is_finished(pod)
