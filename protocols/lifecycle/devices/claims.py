"""Map the prepared claims of a pod to its containers. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from protocols.lifecycle.devices.types import ClaimInfo, PreparedDevice
from protocols.messages.devices import ClaimDevice, PrepareClaims, PreparedClaim


class PodClaims(msgspec.Struct, frozen=True):
    """Prepared claims of a pod and of each of its containers."""

    containers: dict[str, tuple[PreparedClaim, ...]]
    unreferenced: tuple[PreparedClaim, ...]
    """Claims that no container names."""


def pod_claims(requested: PrepareClaims, claims: Mapping[str, ClaimInfo]) -> PodClaims:
    """Return the prepared claims of each container that names one, and those that no container names."""
    names = dict.fromkeys(reference.container for reference in requested.references)
    return PodClaims(
        {name: container_claims(requested, claims, name) for name in names}, unreferenced_claims(requested, claims)
    )


def main_request(request: str) -> str:
    """Return a request's name without its subrequest: drivers report only the part before the slash."""
    return request.partition("/")[0]


def serves(device: PreparedDevice, requests: Iterable[str]) -> bool:
    """Return True if the device serves one of the requests; an empty request means the whole claim."""
    mine = {main_request(name) for name in device.requests}
    return not mine or any(not request or main_request(request) in mine for request in requests)


def container_claims(
    requested: PrepareClaims, claims: Mapping[str, ClaimInfo], container: str
) -> tuple[PreparedClaim, ...]:
    """Return a container's claims in the order it names them. `claims` is keyed by the pod's names for them."""
    requests: dict[str, dict[str, str]] = {}
    for reference in requested.references:
        if reference.container == container and reference.entry in claims:
            requests.setdefault(reference.entry, {})[reference.request] = reference.resource
    return tuple(_prepared(claims[entry], entry, wanted) for entry, wanted in requests.items())


def unreferenced_claims(requested: PrepareClaims, claims: Mapping[str, ClaimInfo]) -> tuple[PreparedClaim, ...]:
    """Return the pod's claims that no container names."""
    named = {reference.entry for reference in requested.references}
    mine = [item.entry for item in requested.claims if item.entry not in named]
    return tuple(_prepared(claims[entry], entry, {"": ""}) for entry in mine)


def _prepared(claim: ClaimInfo, entry: str, requests: Mapping[str, str]) -> PreparedClaim:
    """`requests`: the extended resource that each stands for, empty for those of the pod's own claims."""
    names = (f"{entry}/{request}" if request else entry for request in requests)
    return PreparedClaim(
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        devices=_devices(claim, requests),
        names=tuple(names) if entry else (),
        resources={request: resource for request, resource in requests.items() if resource},
    )


def _devices(claim: ClaimInfo, requests: Iterable[str]) -> tuple[ClaimDevice, ...]:
    return tuple(
        ClaimDevice(
            driver=driver,
            pool=device.pool,
            device=device.device,
            cdi_devices=device.cdi_devices,
            share_id=device.share_id,
            requests=tuple(dict.fromkeys(main_request(name) for name in device.requests)),
        )
        for driver in sorted(claim.drivers)
        for device in claim.drivers[driver]
        if serves(device, requests)
    )
