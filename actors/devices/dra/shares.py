"""Which of a claim's devices belong to which container. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from actors.devices.dra.types import ClaimInfo, PreparedDevice
from protocols.messages.devices import ClaimDevice, PodAllocation, PodClaim, PrepareClaims, PreparedClaim


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
