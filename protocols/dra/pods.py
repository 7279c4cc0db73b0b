"""References between pods and the claims they use, in both directions. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from protocols.dra.types import DeviceId
from protocols.kinds import views
from protocols.kube.meta import controller_of, join_key, meta, name_of, namespace_of, uid_of
from protocols.kube.pods import is_finished, node_of

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Finalizer of claims that are or were allocated."""
CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: which entry of the pod it is for."""
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that stands for a pod's extended resources."""
MAX_CONSUMERS = 256
"""Entries of a claim's status.reservedFor."""
OF_ALLOCATION: tuple[Literal["allocation", "reservedFor", "devices"], ...] = ("allocation", "reservedFor", "devices")
"""Fields of a claim's status that go with the allocation."""


def owner_reference(pod: Mapping[str, Any]) -> views.OwnerReference:
    """Return the owner reference of a claim that was made for a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": name_of(pod),
        "uid": uid_of(pod),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claim_entries(pod: views.Pod) -> list[views.PodResourceClaim]:
    """Return spec.resourceClaims; entries that are no objects are left out."""
    return [entry for entry in (pod.get("spec") or {}).get("resourceClaims") or () if isinstance(entry, dict)]


def claim_names(pod: views.Pod) -> dict[str, str | None]:
    """Return the claim's name by entry: None if it is not created yet, "" if the pod does not need it."""
    status = pod.get("status") or {}
    created = {
        entry.get("name"): entry.get("resourceClaimName") or "" for entry in status.get("resourceClaimStatuses") or ()
    }
    return {
        str(entry.get("name")): entry.get("resourceClaimName") or created.get(entry.get("name"))
        for entry in claim_entries(pod)
    }


def used_claims(pod: views.Pod) -> list[str]:
    """Return the names of all claims that exist for the pod."""
    return [name for name in (*claim_names(pod).values(), extended_claim_name(pod)) if name]


def extended_claim_name(pod: views.Pod) -> str:
    """Return the name of the claim that was created for the pod's extended resources, or ""."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return str(status.get("resourceClaimName") or "")


def extended_claim_key(pod: views.Pod) -> str:
    """Return the key of that claim, or ""."""
    name = extended_claim_name(pod)
    return join_key(namespace_of(pod), name) if name else ""


def is_from_template(entry: views.PodResourceClaim) -> bool:
    """Return True for an entry whose claim the controller generates, so that its name is in status."""
    return bool(entry.get("resourceClaimTemplateName"))


def has_released_claims(pod: views.Pod) -> bool:
    """Return True if the pod no longer uses its claims: it finished, or was deleted before it was bound."""
    if is_finished(pod):
        return True
    return bool(meta(pod).get("deletionTimestamp")) and not node_of(pod)


def owner_pod(claim: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return name and uid of the pod that a claim was generated for; None for other claims."""
    owner = controller_of(claim) or {}
    is_one = owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1"
    return (str(owner.get("name")), str(owner.get("uid"))) if is_one else None


def is_owned_by(claim: views.ResourceClaim | views.PersistentVolumeClaim, pod: views.Pod) -> bool:
    """Return True if the pod, by uid, is the claim's controlling owner: the claim was generated for it."""
    owner = owner_pod(claim)
    return owner is not None and owner[1] == uid_of(pod) and namespace_of(claim) == namespace_of(pod)


def allocation_of(claim: views.ResourceClaim) -> views.AllocationResult | None:
    """Return the AllocationResult; None if the claim is not allocated."""
    allocation = (claim.get("status") or {}).get("allocation")
    return allocation if isinstance(allocation, dict) else None


def results_of(claim: views.ResourceClaim) -> list[views.DeviceRequestAllocationResult]:
    """Return the allocated devices of a claim; none if it is not allocated."""
    devices = (allocation_of(claim) or {}).get("devices") or {}
    return [result for result in devices.get("results") or () if isinstance(result, dict)]


def device_of(result: Mapping[str, Any]) -> DeviceId:
    """Return the device that a result of an allocation names."""
    return DeviceId(str(result.get("driver")), str(result.get("pool")), str(result.get("device")))


def consumers(claim: views.ResourceClaim) -> list[views.ResourceClaimConsumerReference]:
    """Return status.reservedFor; entries that are no objects are left out."""
    return [each for each in (claim.get("status") or {}).get("reservedFor") or () if isinstance(each, dict)]


def is_fully_reserved(claim: views.ResourceClaim) -> bool:
    """Return True if no further consumer may use the claim now."""
    return len(consumers(claim)) >= MAX_CONSUMERS


def is_pod(consumer: views.ResourceClaimConsumerReference) -> bool:
    """Return True for a consumer that is a pod; the API allows others, on which nothing here acts."""
    return not consumer.get("apiGroup") and consumer.get("resource") == "pods"


def is_reserved_for(claim: views.ResourceClaim, uid: str) -> bool:
    """Return True if the pod with this uid may use the claim."""
    return any(is_pod(each) and each.get("uid") == uid for each in consumers(claim))


def consumer(pod: views.Pod) -> views.ResourceClaimConsumerReference:
    """Return the entry of status.reservedFor that reserves a claim for the pod."""
    return {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}


def reserving(
    claim: views.ResourceClaim, pod: views.Pod, allocation: views.AllocationResult | None = None
) -> views.ResourceClaim:
    """Return the claim reserved for one more pod, with `allocation` if it is given."""
    status: views.ResourceClaimStatus = {
        **(claim.get("status") or {}),
        "reservedFor": [*consumers(claim), consumer(pod)],
    }
    if allocation:
        status["allocation"] = allocation
    return {**claim, "status": status}


def releasing(claim: views.ResourceClaim, uids: frozenset[str]) -> views.ResourceClaim:
    """Return the claim without these consumers; without any consumer it is deallocated."""
    status = claim.get("status") or {}
    left = [each for each in consumers(claim) if each.get("uid") not in uids]
    if left:
        return {**claim, "status": {**status, "reservedFor": left}}
    return deallocated(claim)


def deallocated(claim: views.ResourceClaim) -> views.ResourceClaim:
    """Return a copy of the claim whose status has no allocation and no reservations."""
    status = (claim.get("status") or {}).copy()
    for field in OF_ALLOCATION:
        status.pop(field, None)
    return {**claim, "status": status}


def with_finalizer(claim: views.ResourceClaim) -> views.ResourceClaim:
    """Return a copy with the finalizer that retains an allocated claim; the claim must not have it yet."""
    held = meta(claim).get("finalizers") or []
    return {**claim, "metadata": {**meta(claim), "finalizers": [*held, FINALIZER]}}


def without_finalizer(claim: views.ResourceClaim) -> views.ResourceClaim:
    """Return a copy without the finalizer of allocated claims; other finalizers stay."""
    left = [finalizer for finalizer in meta(claim).get("finalizers") or () if finalizer != FINALIZER]
    return {**claim, "metadata": {**meta(claim), "finalizers": left}}


def has_finalizer(claim: views.ResourceClaim) -> bool:
    """Return True if the finalizer of allocated claims retains the claim."""
    return FINALIZER in (meta(claim).get("finalizers") or ())
