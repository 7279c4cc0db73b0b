"""The claims in use on this node, and how their devices map to containers. Pure; one writer.

Invariant: a claim stays, with every driver that may know of it, until no pod uses it and all drivers have unprepared
it.
"""

from collections.abc import Iterable

from actors.devices.dra.errors import ClaimConflict
from protocols.lifecycle.devices.types import ClaimInfo, DeviceName, PreparedDevice
from protocols.messages.devices import PodAllocation, PodClaim, PreparedClaim


class ClaimCache:
    """Claims by NAMESPACE/NAME; the claim preparer is its only writer."""

    def __init__(self, claims: Iterable[ClaimInfo] = ()) -> None:
        self.claims = {claim.key: claim for claim in claims}

    def check(self, requested: PodClaim) -> None:
        """Raise ClaimConflict if another claim of the same name is still in use."""
        known = self.claims.get(f"{requested.namespace}/{requested.name}")
        if known is not None and known.uid != requested.uid:
            raise ClaimConflict(
                f"old ResourceClaim with same name {requested.name} and different UID {known.uid} still exists "
                "(previous pod force-deleted?!)"
            )

    def add(self, pod: str, requested: PodClaim) -> ClaimInfo:
        """Record that the pod uses the claim. Raises ClaimConflict."""
        self.check(requested)
        claim = ClaimInfo(requested.namespace, requested.name, requested.uid)
        claim = self.claims.setdefault(claim.key, claim)
        claim.pods.add(pod)
        for result in requested.results:
            claim.drivers.setdefault(result.driver, ())
        return claim

    def prepared(self, claim: ClaimInfo, driver: str, devices: tuple[PreparedDevice, ...]) -> None:
        """Record what a driver prepared, in place of its earlier result."""
        claim.drivers[driver] = devices
        claim.prepared.add(driver)

    def remove_pod(self, pod: str) -> list[ClaimInfo]:
        """Drop the pod's references to shared claims; return the claims that only this pod uses, to be unprepared."""
        last = []
        for claim in self.of_pod(pod):
            if claim.pods == {pod}:
                last.append(claim)
            else:
                claim.pods.discard(pod)
        return last

    def remove(self, claim: ClaimInfo) -> None:
        """Remove a claim that all drivers have unprepared."""
        self.claims.pop(claim.key, None)

    def of_pod(self, pod: str) -> list[ClaimInfo]:
        return [claim for _, claim in sorted(self.claims.items()) if pod in claim.pods]

    def pods(self) -> set[str]:
        return {pod for claim in self.claims.values() for pod in claim.pods}

    def devices(self) -> set[DeviceName]:
        """Return the devices of every claim that its drivers have reported."""
        return {
            DeviceName(driver, device.pool, device.device)
            for claim in self.claims.values()
            for driver, devices in claim.drivers.items()
            for device in devices
        }

    def in_use(self) -> dict[str, int]:
        """Count prepared claims by driver; `<any>` counts all of them."""
        counts: dict[str, int] = {"<any>": 0}
        for claim in self.claims.values():
            if claim.done:
                counts["<any>"] += 1
                for driver in claim.drivers:
                    counts[driver] = counts.get(driver, 0) + 1
        return counts


def cdi_devices(claims: Iterable[PreparedClaim]) -> tuple[str, ...]:
    """Return the CDI device names, each once, in order."""
    names = (name for claim in claims for device in claim.devices for name in device.cdi_devices)
    return tuple(dict.fromkeys(names))


def required_drivers(claims: Iterable[PodClaim]) -> list[str]:
    """Return the drivers of all devices that are allocated to the claims, sorted."""
    return sorted({result.driver for claim in claims for result in claim.results})


def reconstruct_claims(allocations: Iterable[PodAllocation]) -> list[ClaimInfo]:
    """Reconstruct the claims from what pods hold, as far as containers name them."""
    claims: dict[str, ClaimInfo] = {}
    for pod in allocations:
        for held in (*(claim for item in pod.containers for claim in item.claims), *pod.claims):
            claim = ClaimInfo(held.namespace, held.name, held.uid)
            claim = claims.setdefault(claim.key, claim)
            claim.pods.add(pod.uid)
            for device in held.devices:
                known = claim.drivers.get(device.driver, ())
                again = PreparedDevice(device.pool, device.device, device.requests, device.cdi_devices, device.share_id)
                claim.drivers[device.driver] = known if again in known else (*known, again)
    return list(claims.values())
