"""References between pods and the claims they use, in both directions. Pure."""

from collections.abc import Mapping
from typing import Any

from protocols.dra.types import DeviceId
from protocols.kube.meta import Object, controller_of, join_key, meta, name_of, namespace_of, uid_of
from protocols.kube.pods import is_finished, node_of

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Finalizer of claims that are or were allocated."""
CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: which entry of the pod it is for."""
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that stands for a pod's extended resources."""

Entry = Mapping[str, Any]


def owner_reference(pod: Object) -> Object:
    """Return the owner reference of a claim that was made for a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": name_of(pod),
        "uid": uid_of(pod),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claim_entries(pod: Object) -> list[Entry]:
    return [each for each in (pod.get("spec") or {}).get("resourceClaims") or () if isinstance(each, dict)]


def claim_names(pod: Object) -> dict[str, str | None]:
    """Entry -> name of its claim; None = not created yet, empty = the pod does not need it."""
    status = pod.get("status") or {}
    made = {each.get("name"): each.get("resourceClaimName") or "" for each in status.get("resourceClaimStatuses") or ()}
    return {
        str(each.get("name")): each.get("resourceClaimName") or made.get(each.get("name"))
        for each in claim_entries(pod)
    }


def used_claims(pod: Object) -> list[str]:
    """Names of all claims that exist for the pod."""
    return [name for name in (*claim_names(pod).values(), extended_claim_name(pod)) if name]


def extended_claim_name(pod: Object) -> str:
    """Return the name of the claim that was created for the pod's extended resources, or ""."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return str(status.get("resourceClaimName") or "")


def extended_claim_key(pod: Object) -> str:
    """Return the key of that claim, or ""."""
    name = extended_claim_name(pod)
    return join_key(namespace_of(pod), name) if name else ""


def from_template(entry: Entry) -> bool:
    return bool(entry.get("resourceClaimTemplateName"))


def pod_done(pod: Object) -> bool:
    """It uses its claims no more: it ended, or was deleted before any node had it."""
    if is_finished(pod):
        return True
    return bool(meta(pod).get("deletionTimestamp")) and not node_of(pod)


def owner_pod(claim: Object) -> tuple[str, str] | None:
    """Name and uid of the pod a claim was made for."""
    owner = controller_of(claim) or {}
    is_one = owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1"
    return (str(owner.get("name")), str(owner.get("uid"))) if is_one else None


def owned_by(claim: Object, pod: Object) -> bool:
    owner = owner_pod(claim)
    return owner is not None and owner[1] == uid_of(pod) and namespace_of(claim) == namespace_of(pod)


def allocation_of(claim: Object) -> Object | None:
    """The AllocationResult, if there is one."""
    found = (claim.get("status") or {}).get("allocation")
    return found if isinstance(found, dict) else None


def results_of(claim: Object) -> list[Object]:
    devices = (allocation_of(claim) or {}).get("devices") or {}
    return [each for each in devices.get("results") or () if isinstance(each, dict)]


def device_of(result: Entry) -> DeviceId:
    """Return the device that a result of an allocation names."""
    return DeviceId(str(result.get("driver")), str(result.get("pool")), str(result.get("device")))


def consumers(claim: Object) -> list[Object]:
    return [each for each in (claim.get("status") or {}).get("reservedFor") or () if isinstance(each, dict)]


def is_pod(consumer: Entry) -> bool:
    return not consumer.get("apiGroup") and consumer.get("resource") == "pods"


def reserved_for(claim: Object, uid: str) -> bool:
    return any(is_pod(each) and each.get("uid") == uid for each in consumers(claim))


def consumer(pod: Object) -> Object:
    return {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}


def reserving(claim: Object, pod: Object, allocation: Object | None = None) -> Object:
    """The claim as it is to be written to its status: reserved for one pod more, and allocated if it was not."""
    status = {**(claim.get("status") or {}), "reservedFor": [*consumers(claim), consumer(pod)]}
    return {**claim, "status": {**status, **({"allocation": allocation} if allocation else {})}}


def releasing(claim: Object, uids: frozenset[str]) -> Object:
    """Without these consumers; with the last one the allocation goes as well."""
    status = dict(claim.get("status") or {})
    left = [each for each in consumers(claim) if each.get("uid") not in uids]
    if left:
        return {**claim, "status": {**status, "reservedFor": left}}
    return deallocated(claim)


def deallocated(claim: Object) -> Object:
    gone = ("allocation", "reservedFor", "devices")
    return {**claim, "status": {name: each for name, each in (claim.get("status") or {}).items() if name not in gone}}


def with_finalizer(claim: Object) -> Object:
    held = meta(claim).get("finalizers") or []
    return {**claim, "metadata": {**meta(claim), "finalizers": [*held, FINALIZER]}}


def without_finalizer(claim: Object) -> Object:
    left = [each for each in meta(claim).get("finalizers") or () if each != FINALIZER]
    return {**claim, "metadata": {**meta(claim), "finalizers": left}}


def has_finalizer(claim: Object) -> bool:
    return FINALIZER in (meta(claim).get("finalizers") or ())
