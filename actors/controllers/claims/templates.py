"""ResourceClaims generated from templates for one pod. Pure."""

from collections.abc import Iterable, Mapping

from protocols.dra.pods import CLAIM_NAME, claim_entries, claim_names, is_from_template, is_owned_by, owner_reference
from protocols.kinds import views
from protocols.kinds.table import RESOURCECLAIMS
from protocols.kube.meta import annotations_of, name_of

BASE = 57
"""Longest generateName: 63 characters without a hyphen and five random ones."""


def base_name(pod: str, entry: str) -> str:
    """Return the generateName; if it is too long, both parts are cut in proportion."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= BASE + 1:
        return whole
    share = (max(1, len(part) * (BASE - 1) // (len(pod) + len(entry))) for part in (pod, entry))
    parts = (part[:size].rstrip("-.") for part, size in zip((pod, entry), share, strict=True))
    return "-".join(parts) + "-"


def claim_for(pod: views.Pod, entry: str, template: views.ResourceClaimTemplate) -> views.ResourceClaim:
    """Return the claim for an entry of a pod's spec.resourceClaims; the pod owns it."""
    spec = template.get("spec") or {}
    wanted = spec.get("metadata") or {}
    metadata: views.ObjectMeta = {
        "generateName": base_name(name_of(pod), entry),
        "annotations": {**(wanted.get("annotations") or {}), CLAIM_NAME: entry},
        "ownerReferences": [owner_reference(pod)],
    }
    if labels := wanted.get("labels"):
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": RESOURCECLAIMS.api_version,
        "kind": RESOURCECLAIMS.kind,
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def missing(pod: views.Pod) -> list[views.PodResourceClaim]:
    """Return the entries that name a template and have no claim yet."""
    names = claim_names(pod)
    return [
        entry for entry in claim_entries(pod) if is_from_template(entry) and names.get(str(entry.get("name"))) is None
    ]


def found(pod: views.Pod, entry: str, claims: Iterable[views.ResourceClaim]) -> str:
    """Return the claim generated for an entry whose status was not written; empty if there is none."""
    mine = (claim for claim in claims if is_owned_by(claim, pod) and annotations_of(claim).get(CLAIM_NAME) == entry)
    return min((name_of(claim) for claim in mine), default="")


def statuses(pod: views.Pod, made: Mapping[str, str]) -> list[views.PodResourceClaimStatus]:
    """Return the whole of pod.status.resourceClaimStatuses, old and new entries."""
    known = claim_names(pod)
    listed: list[views.PodResourceClaimStatus] = []
    for entry in claim_entries(pod):
        name = str(entry.get("name"))
        claim = made.get(name, known.get(name))
        if is_from_template(entry) and claim is not None:
            listed.append({"name": name, "resourceClaimName": claim} if claim else {"name": name})
    return listed
