"""Evaluators: which resources of a quota a kind of object uses, and how much of them one object does."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from protocols.kube.meta import Object
from protocols.kube.quantity import ZERO, Quantity
from protocols.quota import pods, scopes
from protocols.quota.amounts import ONE, Amounts, parsed, total

DRA = "resource.k8s.io"
CLAIMS = f"resourceclaims.{DRA}"
PER_CLASS = f".deviceclass.{DRA}/devices"
MOST_DEVICES = 32
"""Devices in one allocation: what a request of all devices is charged."""
STORAGE = "requests.storage"
OF_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
ALIASED = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
"""Resources whose count has a name without `count/`, too."""
IGNORED = ("events", "events.events.k8s.io", "bindings")


class Evaluator(msgspec.Struct, frozen=True):
    """Rules of one resource."""

    covers: Callable[[str], bool]
    """Return True if objects use the resource of this name in a quota."""
    usage: Callable[[Object], Amounts]
    matches: Callable[[Object, Object], bool] = scopes.never_matches
    """Return True if an object matches a term of a quota's scopes."""
    updates: bool = False
    """Updates of objects are charged, too."""
    missing: Callable[[Object, Collection[str]], str] | None = None
    """Return what an object lacks under a quota of these names."""

    def applies(self, quota: Object, obj: Object) -> bool:
        """Return True if the quota's status limits something of which the object uses some."""
        hard = (quota.get("status") or {}).get("hard") or {}
        return any(map(self.covers, hard)) and self.in_scope(quota, obj)

    def in_scope(self, quota: Object, obj: Object) -> bool:
        return all(self.matches(term, obj) for term in scopes.requirements(quota))


def _service_usage(service: Object) -> Amounts:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), spec.get("ports") or []
    node_ports = 0
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False):
        node_ports = len(ports)
    elif kind == "LoadBalancer":
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    balancers = ONE if kind == "LoadBalancer" else ZERO
    usage = {"services": ONE, "count/services": ONE, "services.loadbalancers": balancers}
    return {**usage, "services.nodeports": _whole(node_ports)}


def _whole(number: int) -> Quantity:
    return Quantity(number * ONE.nanos)


def _volume_claim_usage(claim: Object) -> Amounts:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    storage_class = ((claim.get("metadata") or {}).get("annotations") or {}).get(CLASS_ANNOTATION)
    storage_class = storage_class or spec.get("storageClassName")
    names = ["persistentvolumeclaims"] + (
        [f"{storage_class}{OF_STORAGE_CLASS}persistentvolumeclaims"] * bool(storage_class)
    )
    usage: Amounts = {"count/persistentvolumeclaims": ONE, **dict.fromkeys(names, ONE)}
    asked = parsed((spec.get("resources") or {}).get("requests")).get("storage")
    held = parsed(status.get("allocatedResources")).get("storage")
    if asked is not None:
        amount = max(asked, held) if held is not None else asked
        usage[STORAGE] = amount
        if storage_class:
            usage[f"{storage_class}{OF_STORAGE_CLASS}{STORAGE}"] = amount
    return usage


def _covers_volume_claims(name: str) -> bool:
    plain = ("persistentvolumeclaims", "count/persistentvolumeclaims", STORAGE)
    suffixes = (f"{OF_STORAGE_CLASS}{STORAGE}", f"{OF_STORAGE_CLASS}persistentvolumeclaims")
    return name in plain or name.endswith(suffixes)


def device_claim_usage(claim: Object) -> Amounts:
    """Return the devices that a ResourceClaim may take, by class: of alternatives, the most of each class."""
    usage: Amounts = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        if not alternatives:
            usage = total(usage, _devices(request.get("exactly") or request))
            continue
        largest: Amounts = {}
        for alternative in alternatives:
            for name, amount in _devices(alternative).items():
                largest[name] = max(largest.get(name, ZERO), amount)
        usage = total(usage, largest)
    return {f"count/{CLAIMS}": ONE, **usage}


def _devices(request: Mapping[str, Any]) -> Amounts:
    name = request.get("deviceClassName")
    if not name:
        return {}
    count = MOST_DEVICES if request.get("allocationMode") == "All" else request.get("count")
    return {f"{name}{PER_CLASS}": _whole(count if isinstance(count, int) else 1)}


PODS = Evaluator(pods.covers, pods.pod_usage, scopes.pod_matches, missing=pods.missing)
SERVICE_NAMES = ("services", "count/services", "services.nodeports", "services.loadbalancers")
EVALUATORS = {
    "pods": PODS,
    "services": Evaluator(SERVICE_NAMES.__contains__, _service_usage, updates=True),
    "persistentvolumeclaims": Evaluator(_covers_volume_claims, _volume_claim_usage, scopes.claim_matches, updates=True),
    CLAIMS: Evaluator(
        lambda name: name == f"count/{CLAIMS}" or name.endswith(PER_CLASS), device_claim_usage, updates=True
    ),
}
"""Evaluators of resources that are more than counted, by full name."""


def evaluator_of(resource: str) -> Evaluator:
    """Return the evaluator of a resource by its full name, such as `pods` or `leases.coordination.k8s.io`."""
    return EVALUATORS.get(resource) or _counter(resource)


def _counter(resource: str) -> Evaluator:
    names = (f"count/{resource}", resource) if resource in ALIASED else (f"count/{resource}",)
    return Evaluator(names.__contains__, lambda obj: dict.fromkeys(names, ONE))


def resources_of(hard: Iterable[str]) -> set[str]:
    """Return the full names of the resources whose objects use these names of a quota."""
    resources = set()
    for name in hard:
        special = {resource for resource, evaluator in EVALUATORS.items() if evaluator.covers(name)}
        if not special and (name.startswith("count/") or name in ALIASED):
            special = {name.removeprefix("count/")} - set(IGNORED)
        resources |= special
    return resources
