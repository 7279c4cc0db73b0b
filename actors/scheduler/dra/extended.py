"""Extended resources that a DeviceClass stands for: a pod that asks for `example.com/gpu: 2` gets two devices of the
class where the node has no such resource of a device plugin. Pure.

Containers that stay (sidecars and the pod's own) have a request each. An init container that ends before they start
uses theirs; what it needs beyond them is asked for once, for the init container that lacks most.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.scheduler.types import PodView
from actors.scheduler.views import amounts
from protocols.dra.allocator.claims import Claim, Request, Want
from protocols.dra.pods import EXTENDED_CLAIM, owner_reference
from protocols.dra.types import DeviceClass
from protocols.kube.meta import Object, name_of, namespace_of, uid_of
from protocols.kube.quantity import NANO
from protocols.kube.resources import RESOURCECLAIMS

IMPLICIT = "deviceclass.resource.kubernetes.io/"
LEFT_OVER = "cannot schedule extended resource claim"
Backing = Mapping[str, str]
"""Resource -> the class that stands for it."""
NOTHING: frozenset[str] = frozenset()


def backing(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Of several classes of a resource the newest counts, and of equally old ones the one with the smaller name."""
    known = sorted(classes, key=lambda each: each.name, reverse=True)
    known.sort(key=lambda each: each.created)
    named = {each.extended_resource: each.name for each in known if each.extended_resource}
    return {**{IMPLICIT + each.name: each.name for each in known}, **named}


def backed(view: PodView, classes: Backing) -> frozenset[str]:
    """Resources the pod asks for that a class stands for."""
    return frozenset(name for name, asked in view.requests.items() if asked and name in classes)


@dataclass(frozen=True)
class Mapping_:
    container: str
    resource: str
    request: str

    def as_object(self) -> Object:
        return {"containerName": self.container, "resourceName": self.resource, "requestName": self.request}


@dataclass(frozen=True)
class ExtendedClaim:
    """The claim that stands for some of a pod's resources; it exists in the API only once it is to be written."""

    claim: Claim
    mappings: tuple[Mapping_, ...]

    def as_object(self, pod: Object) -> Object:
        metadata = {
            "generateName": f"{name_of(pod)[:38].rstrip('-.')}-extended-resources-",
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [owner_reference(pod)],
        }
        requests = [{"name": each.name, "exactly": _exactly(each.wants[0])} for each in self.claim.requests]
        kind = {"apiVersion": RESOURCECLAIMS.api_version, "kind": RESOURCECLAIMS.kind}
        return {**kind, "metadata": metadata, "spec": {"devices": {"requests": requests}}}

    def status(self, name: str) -> Object:
        """pod.status.extendedResourceClaimStatus"""
        return {"resourceClaimName": name, "requestMappings": [each.as_object() for each in self.mappings]}


def _exactly(want: Want) -> Object:
    return {"deviceClassName": want.class_name, "allocationMode": want.mode, "count": want.count}


@dataclass(frozen=True)
class _Need:
    container: str
    at: int
    request: str
    count: int
    stays: bool


def extended_claim(pod: Object, resources: frozenset[str], classes: Backing) -> ExtendedClaim:
    requests: list[Request] = []
    mappings: list[Mapping_] = []
    for resource in sorted(resources):
        asked, mapped = _of_resource(resource, _needs(pod, resource), classes[resource])
        requests += asked
        mappings += mapped
    claim = Claim(f"{namespace_of(pod)}/<extended-resources>", f"extended {uid_of(pod)}", tuple(requests), (), ())
    return ExtendedClaim(claim, tuple(mappings))


def _of_resource(resource: str, needs: list[_Need], class_name: str) -> tuple[list[Request], list[Mapping_]]:
    counts = {need.request: need.count for need in needs if need.stays}
    lack = {need: need.count - sum(each.count for each in _later(needs, need)) for need in needs if not need.stays}
    extra = max((need for need in lack if lack[need] > 0), key=lambda need: (lack[need], -need.at), default=None)
    if extra is not None:
        counts[extra.request] = lack[extra]
    mappings = [Mapping_(need.container, resource, need.request) for need in needs if need.stays]
    for need in lack:
        mappings += [Mapping_(need.container, resource, name) for name in _borrowed(needs, need, extra, lack[need])]
    return [Request(name, (Want(name, class_name, count=count),)) for name, count in counts.items()], mappings


def _later(needs: list[_Need], need: _Need) -> list[_Need]:
    """Containers that start once this one has ended."""
    return [each for each in needs if each.stays and each.at > need.at]


def _borrowed(needs: list[_Need], need: _Need, extra: _Need | None, lack: int) -> list[str]:
    """Requests whose devices an init container uses, until it has as many as it wants."""
    names, left = [], need.count
    for each in _later(needs, need):
        if left > 0:
            names.append(each.request)
            left -= each.count
    return [*names, extra.request] if extra is not None and lack > 0 else names


def _needs(pod: Object, resource: str) -> list[_Need]:
    spec = pod.get("spec") or {}
    first = [(each, each.get("restartPolicy") == "Always") for each in spec.get("initContainers") or ()]
    found = []
    for at, (container, stays) in enumerate([*first, *((each, True) for each in spec.get("containers") or ())]):
        asked = _asked(container)
        if count := asked.get(resource, 0) // NANO:
            request = f"container-{at}-request-{sorted(asked).index(resource)}"
            found.append(_Need(str(container.get("name") or ""), at, request, count, stays))
    return found


def _asked(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def named_claim(pod: Object) -> str:
    """Key of the claim that was written down for the pod's extended resources; empty if there is none."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return f"{namespace_of(pod)}/{status['resourceClaimName']}" if status.get("resourceClaimName") else ""
