"""The claims in use on this node. Pure; one writer.

Invariant: a claim stays, with every driver that may know of it, until no pod uses it and all its drivers have let go.
"""

from collections.abc import Iterable

from actors.devices.dra.errors import ClaimConflict
from actors.devices.dra.types import ClaimInfo, DeviceName, PreparedDevice
from protocols.messages.devices import PodClaim


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
