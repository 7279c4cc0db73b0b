"""Extended resources backed by a DeviceClass. Pure.

A pod that requests `example.com/gpu: 2` gets two devices of the class on a node without such a device plugin. Sidecars
and app containers have a request each. An init container uses the devices of containers that start after it; what it
needs beyond them is requested once, for the init container that lacks most.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from protocols.dra.allocator.claims import Claim, Request, SubRequest
from protocols.dra.pods import EXTENDED_CLAIM, owner_reference
from protocols.dra.types import DeviceClass, DraError
from protocols.kinds.table import RESOURCECLAIMS
from protocols.kube.meta import Object, name_of, namespace_of, uid_of
from protocols.kube.quantity import NANO
from protocols.kube.resource_names import DEVICE_CLASS
from protocols.scheduling.requests import container_requests

Backing = Mapping[str, str]
"""DeviceClass by extended resource."""
MAX_REQUESTS = 32
"""Requests of one claim, by the API."""


class TooManyRequests(DraError):
    """Raised when the containers' extended resources need more requests than a claim may have."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"extended resources of the containers need {count} requests; a claim has at most {MAX_REQUESTS}"
        )


def backing(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class of each resource: the newest one, then the one with the smaller name."""
    known = sorted(classes, key=lambda each: each.name, reverse=True)
    known.sort(key=lambda each: each.created)
    named = {
        device_class.extended_resource: device_class.name for device_class in known if device_class.extended_resource
    }
    return {**{DEVICE_CLASS + device_class.name: device_class.name for device_class in known}, **named}


def backed(requests: Mapping[str, int], classes: Backing) -> frozenset[str]:
    """Return the requested resources that a class backs."""
    return frozenset(name for name, asked in requests.items() if asked and name in classes)


class RequestMapping(msgspec.Struct, frozen=True):
    """A container's extended resource and the request of the pod's special claim that backs it."""

    container: str
    resource: str
    request: str

    def as_object(self) -> Object:
        return {"containerName": self.container, "resourceName": self.resource, "requestName": self.request}


class ExtendedClaim(msgspec.Struct, frozen=True):
    """A claim for some of a pod's extended resources. It is created in the API only when it is written."""

    claim: Claim
    mappings: tuple[RequestMapping, ...]

    def as_object(self, pod: Mapping[str, Any]) -> Object:
        metadata = {
            "generateName": f"{name_of(pod)[:38].rstrip('-.')}-extended-resources-",
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [owner_reference(pod)],
        }
        requests = [
            {"name": request.name, "exactly": _exactly(request.subrequests[0])} for request in self.claim.requests
        ]
        return {**RESOURCECLAIMS.type_meta, "metadata": metadata, "spec": {"devices": {"requests": requests}}}

    def status(self, name: str) -> Object:
        """Return pod.status.extendedResourceClaimStatus."""
        return {"resourceClaimName": name, "requestMappings": [mapping.as_object() for mapping in self.mappings]}


def _exactly(subrequest: SubRequest) -> Object:
    return {"deviceClassName": subrequest.class_name, "allocationMode": subrequest.mode, "count": subrequest.count}


class _Need(msgspec.Struct, frozen=True):
    container: str
    index: int
    request: str
    count: int
    permanent: bool


def extended_claim(pod: Mapping[str, Any], resources: frozenset[str], classes: Backing) -> ExtendedClaim:
    """Raises TooManyRequests."""
    requests: list[Request] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        asked, mapped = _of_resource(resource, _needs(pod, resource), classes[resource])
        requests += asked
        mappings += mapped
    _check_count(len(requests))
    requests.sort(key=lambda request: request.name)  # as upstream: the first request gets the first devices
    claim = Claim(f"{namespace_of(pod)}/<extended-resources>", f"extended {uid_of(pod)}", tuple(requests), (), ())
    return ExtendedClaim(claim, tuple(mappings))


def _of_resource(resource: str, needs: list[_Need], class_name: str) -> tuple[list[Request], list[RequestMapping]]:
    counts = {need.request: need.count for need in needs if need.permanent}
    _check_count(len(counts))
    lack = _lack(needs)
    extra = max((need for need in lack if lack[need] > 0), key=lambda need: (lack[need], -need.index), default=None)
    if extra is not None:
        counts[extra.request] = lack[extra]
    permanent = [need for need in needs if need.permanent]
    mappings = [RequestMapping(need.container, resource, need.request) for need in permanent]
    for need in lack:
        mappings += [
            RequestMapping(need.container, resource, name) for name in _borrowed(permanent, need, extra, lack[need])
        ]
    return [Request(name, (SubRequest(name, class_name, count=count),)) for name, count in counts.items()], mappings


def _check_count(requests: int) -> None:
    if requests > MAX_REQUESTS:
        raise TooManyRequests(requests)


def _lack(needs: list[_Need]) -> dict[_Need, int]:
    """Return how many devices each init container needs beyond those of containers that start after it."""
    shortfalls, later = {}, 0
    for need in reversed(needs):
        if need.permanent:
            later += need.count
        else:
            shortfalls[need] = need.count - later
    return dict(reversed(shortfalls.items()))


def _later(needs: list[_Need], need: _Need) -> list[_Need]:
    """Return the containers that start after this init container has ended."""
    return [other for other in needs if other.permanent and other.index > need.index]


def _borrowed(needs: list[_Need], need: _Need, extra: _Need | None, lack: int) -> list[str]:
    """Return the requests whose devices an init container uses, until it has enough."""
    names, left = [], need.count
    for later in _later(needs, need):
        if left > 0:
            names.append(later.request)
            left -= later.count
    return [*names, extra.request] if extra is not None and lack > 0 else names


def _needs(pod: Mapping[str, Any], resource: str) -> list[_Need]:
    spec = pod.get("spec") or {}
    first = [(each, each.get("restartPolicy") == "Always") for each in spec.get("initContainers") or ()]
    needs = []
    for index, (container, permanent) in enumerate([*first, *((each, True) for each in spec.get("containers") or ())]):
        asked = container_requests(container)
        if count := asked.get(resource, 0) // NANO:
            request = f"container-{index}-request-{sorted(asked).index(resource)}"
            needs.append(_Need(str(container.get("name") or ""), index, request, count, permanent))
    return needs
