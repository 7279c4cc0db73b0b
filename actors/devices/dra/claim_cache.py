"""The claims in use on this node. Pure; one writer.

Invariant: a claim stays, with every driver that may know of it, until no pod uses it and all its drivers have let go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from actors.devices.dra.errors import ClaimConflict
from actors.devices.dra.types import ClaimInfo, DeviceName, PreparedDevice
from protocols.messages.devices import ClaimDevice, PodAllocation, PodClaim, PrepareClaims, PreparedClaim


class ClaimCache:
    def __init__(self, claims: Iterable[ClaimInfo] = ()) -> None:
        self.claims = {claim.key: claim for claim in claims}

    def check(self, asked: PodClaim) -> None:
        """Raise ClaimConflict when the name still stands for another claim."""
        known = self.claims.get(f"{asked.namespace}/{asked.name}")
        if known is not None and known.uid != asked.uid:
            raise ClaimConflict(
                f"old ResourceClaim with same name {asked.name} and different UID {known.uid} still exists "
                "(previous pod force-deleted?!)"
            )

    def enter(self, pod: str, asked: PodClaim) -> ClaimInfo:
        """The pod uses the claim from now on; raises ClaimConflict."""
        self.check(asked)
        claim = ClaimInfo(asked.namespace, asked.name, asked.uid)
        claim = self.claims.setdefault(claim.key, claim)
        claim.pods.add(pod)
        for result in asked.results:
            claim.drivers.setdefault(result.driver, ())
        return claim

    def prepared(self, claim: ClaimInfo, driver: str, devices: tuple[PreparedDevice, ...]) -> None:
        """What the driver says replaces what it said before."""
        claim.drivers[driver] = devices
        claim.prepared.add(driver)

    def leave(self, pod: str) -> list[ClaimInfo]:
        """Claims that nobody but this pod uses: to be given back before `gone`. Shared ones lose the reference."""
        last = []
        for claim in self.of_pod(pod):
            if claim.pods == {pod}:
                last.append(claim)
            else:
                claim.pods.discard(pod)
        return last

    def gone(self, claim: ClaimInfo) -> None:
        """All its drivers have let go."""
        self.claims.pop(claim.key, None)

    def of_pod(self, pod: str) -> list[ClaimInfo]:
        return [claim for _, claim in sorted(self.claims.items()) if pod in claim.pods]

    def pods(self) -> set[str]:
        return {pod for claim in self.claims.values() for pod in claim.pods}

    def devices(self) -> set[DeviceName]:
        """Of every claim, as far as its driver has named them."""
        return {
            DeviceName(driver, device.pool, device.device)
            for claim in self.claims.values()
            for driver, devices in claim.drivers.items()
            for device in devices
        }

    def in_use(self) -> dict[str, int]:
        """Prepared claims by driver; `<any>` is all of them."""
        counts: dict[str, int] = {"<any>": 0}
        for claim in self.claims.values():
            if claim.done:
                counts["<any>"] += 1
                for driver in claim.drivers:
                    counts[driver] = counts.get(driver, 0) + 1
        return counts


@dataclass(frozen=True)
class PodClaims:
    """What a pod and each of its containers have of prepared claims."""

    containers: dict[str, tuple[PreparedClaim, ...]]
    loose: tuple[PreparedClaim, ...]
    """Named by no container."""


def pod_claims(asked: PrepareClaims, claims: Mapping[str, ClaimInfo]) -> PodClaims:
    names = dict.fromkeys(reference.container for reference in asked.references)
    return PodClaims({name: of_container(asked, claims, name) for name in names}, of_nobody(asked, claims))


def base(request: str) -> str:
    """Drivers name requests without what follows a slash; pods may name it."""
    return request.partition("/")[0]


def answers(device: PreparedDevice, requests: Sequence[str]) -> bool:
    """Whether a device is one of the requests; an empty one stands for the whole claim."""
    mine = {base(name) for name in device.requests}
    return not mine or any(not request or base(request) in mine for request in requests)


def of_container(asked: PrepareClaims, claims: Mapping[str, ClaimInfo], container: str) -> tuple[PreparedClaim, ...]:
    """In the order the container names them; `claims` by the pod's own names for them."""
    requests: dict[str, list[str]] = {}
    for reference in asked.references:
        if reference.container == container and reference.entry in claims:
            requests.setdefault(reference.entry, []).append(reference.request)
    return tuple(_prepared(claims[entry], entry, wanted) for entry, wanted in requests.items())


def of_nobody(asked: PrepareClaims, claims: Mapping[str, ClaimInfo]) -> tuple[PreparedClaim, ...]:
    """Claims of the pod that no container names."""
    named = {reference.entry for reference in asked.references}
    mine = [item.entry for item in asked.claims if item.entry not in named]
    return tuple(_prepared(claims[entry], entry, [""]) for entry in mine)


def cdi_devices(claims: Iterable[PreparedClaim]) -> tuple[str, ...]:
    """Each once, in order."""
    names = (name for claim in claims for device in claim.devices for name in device.cdi_devices)
    return tuple(dict.fromkeys(names))


def wanted_drivers(claims: Iterable[PodClaim]) -> list[str]:
    return sorted({result.driver for claim in claims for result in claim.results})


def rebuilt(allocations: Iterable[PodAllocation]) -> list[ClaimInfo]:
    """The claims behind what pods hold, as far as their containers name them."""
    found: dict[str, ClaimInfo] = {}
    for pod in allocations:
        for held in (*(claim for item in pod.containers for claim in item.claims), *pod.claims):
            claim = ClaimInfo(held.namespace, held.name, held.uid)
            claim = found.setdefault(claim.key, claim)
            claim.pods.add(pod.uid)
            for device in held.devices:
                known = claim.drivers.get(device.driver, ())
                again = PreparedDevice(device.pool, device.device, device.requests, device.cdi_devices, device.share_id)
                claim.drivers[device.driver] = known if again in known else (*known, again)
    return list(found.values())


def _prepared(claim: ClaimInfo, entry: str, requests: Sequence[str]) -> PreparedClaim:
    names = (f"{entry}/{request}" if request else entry for request in dict.fromkeys(requests))
    return PreparedClaim(
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        devices=_devices(claim, requests),
        names=tuple(names) if entry else (),
    )


def _devices(claim: ClaimInfo, requests: Sequence[str]) -> tuple[ClaimDevice, ...]:
    return tuple(
        ClaimDevice(
            driver=driver,
            pool=device.pool,
            device=device.device,
            cdi_devices=device.cdi_devices,
            share_id=device.share_id,
            requests=tuple(dict.fromkeys(base(name) for name in device.requests)),
        )
        for driver in sorted(claim.drivers)
        for device in claim.drivers[driver]
        if answers(device, requests)
    )
