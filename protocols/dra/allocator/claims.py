"""Requests and constraints of a ResourceClaim, as the search reads them. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from protocols.dra.allocator.shares import NO_REQUESTS, Requests, requests_of
from protocols.dra.allocator.types import Toleration
from protocols.dra.decode import selectors_of
from protocols.kube.meta import key_of, uid_of

ALL, EXACT_COUNT = "All", "ExactCount"


class SubRequest(msgspec.Struct, frozen=True):
    """A subrequest of `firstAvailable`, or a request without alternatives: the search treats both alike."""

    name: str
    """`r`, or `r/sub`."""
    class_name: str
    selectors: tuple[str, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: Requests = NO_REQUESTS
    """Amounts of capacity that a device must have, and that a share of it consumes."""


class Request(msgspec.Struct, frozen=True):
    """One request of a claim: an exact one, or alternatives of which one is allocated."""

    name: str
    subrequests: tuple[SubRequest, ...]
    """In order of preference: the first that leads to a solution is allocated. One entry unless `prioritized`."""
    prioritized: bool = False


class DeviceConstraint(msgspec.Struct, frozen=True):
    """Constraint of a claim: one of `match` and `distinct` is the qualified attribute, the other is empty."""

    match: str
    distinct: str
    requests: tuple[str, ...]
    """Empty = all."""


class Claim(msgspec.Struct, frozen=True):
    """A ResourceClaim's spec with the identity of the object."""

    key: str
    uid: str
    requests: tuple[Request, ...]
    constraints: tuple[DeviceConstraint, ...]
    config: tuple[Mapping[str, Any], ...]


def claim_of(obj: Mapping[str, Any]) -> Claim:
    """Read an unallocated claim; what the API's schema does not require may be absent."""
    devices = (obj.get("spec") or {}).get("devices") or {}
    return Claim(
        key=key_of(obj),
        uid=uid_of(obj),
        requests=tuple(map(_request, devices.get("requests") or ())),
        constraints=tuple(map(_constraint, devices.get("constraints") or ())),
        config=tuple(devices.get("config") or ()),
    )


def _request(entry: Mapping[str, Any]) -> Request:
    name = str(entry.get("name") or "")
    if alternatives := entry.get("firstAvailable"):
        subrequests = tuple(
            _subrequest(f"{name}/{alternative.get('name') or ''}", alternative) for alternative in alternatives
        )
        return Request(name, subrequests, prioritized=True)
    return Request(name, (_subrequest(name, entry.get("exactly") or {}),))


def _subrequest(name: str, entry: Mapping[str, Any]) -> SubRequest:
    return SubRequest(
        name=name,
        class_name=str(entry.get("deviceClassName") or ""),
        selectors=selectors_of(entry),
        mode=str(entry.get("allocationMode") or EXACT_COUNT),
        count=int(entry.get("count") or 1),
        admin=bool(entry.get("adminAccess")),
        tolerations=tuple(entry.get("tolerations") or ()),
        capacity=requests_of(entry),
    )


def _constraint(entry: Mapping[str, Any]) -> DeviceConstraint:
    return DeviceConstraint(
        str(entry.get("matchAttribute") or ""),
        str(entry.get("distinctAttribute") or ""),
        tuple(entry.get("requests") or ()),
    )


def is_referenced(references: tuple[str, ...], subrequest: str) -> bool:
    """Return True if references name a subrequest: `r` names all of its subrequests, `r/sub` one; none names all."""
    return not references or subrequest in references or subrequest.partition("/")[0] in references
