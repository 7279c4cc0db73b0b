"""Admission of pods: their RuntimeClass, and the token and pull secrets of their service account. Pure.

Clients match on the texts.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from actors.apiserver.api.objects import at, items, text
from actors.apiserver.authorization.node_graph import references
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.quantity import Quantity, parse_quantity

Find = Callable[[str], Awaitable[Object | None]]
"""Return a RuntimeClass by name, from the store if the replica lacks it; None if there is none."""


def names_class(pod: Object) -> str:
    name = at(pod, "spec", "runtimeClassName")
    return name if isinstance(name, str) else ""


def concerns(pod: Object) -> bool:
    return isinstance(pod.get("spec"), dict) and bool(names_class(pod) or at(pod, "spec", "overhead"))


def apply_class(pod: Object, found: Object | None) -> str:
    """Apply the class `found` to a pod. Return why the pod is rejected; empty if it is not.

    `found` is None if the pod names no class, or one that does not exist.
    """
    name = names_class(pod)
    if name and found is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    return _overhead(pod["spec"], found or {}) or _scheduling(pod["spec"], found or {})


def _overhead(spec: Object, found: Object) -> str:
    given, fixed = spec.get("overhead"), at(found, "overhead", "podFixed")
    if not isinstance(fixed, dict) or not fixed:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead" if given else ""
    if given and _amounts(given) != _amounts(fixed):
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    spec["overhead"] = dict(fixed)
    return ""


def _amounts(resources: object) -> dict[str, Quantity] | None:
    """Return the quantities; None if some are invalid, which validation reports."""
    try:
        return {str(k): parse_quantity(str(v)) for k, v in resources.items()} if isinstance(resources, dict) else None
    except QuantityInvalid:
        return None


def _scheduling(spec: Object, found: Object) -> str:
    requested = spec.get("nodeSelector")
    selector: dict[str, object] = requested if isinstance(requested, dict) else {}
    for key, value in (at(found, "scheduling", "nodeSelector") or {}).items():
        own = selector.get(key, value)
        if own != value:
            where = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            return f"conflict: {where}"
        selector = spec["nodeSelector"] = {**selector, key: value}
    given = items(spec, "tolerations")
    if added := [each for each in items(found, "scheduling", "tolerations") if each not in given]:
        spec["tolerations"] = [*given, *added]
    return ""


MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "kube-api-access-"
SECONDS = 3607
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def wants_token(pod: Object, account: Object | None) -> bool:
    """Return True if the pod gets a token. The field of the pod overrides that of its account."""
    own = at(pod, "spec", "automountServiceAccountToken")
    return bool((account or {}).get("automountServiceAccountToken") if own is None else own)


def wants_pull_secrets(pod: Object, account: Object | None) -> bool:
    """Return True if the pod gets the pull secrets of its account: it has none of its own."""
    if items(pod, "spec", "imagePullSecrets"):
        return False
    return bool((account or {}).get("imagePullSecrets"))


def mirror_fault(pod: Object) -> str:
    """Return why this mirror pod is rejected: it may not refer to accounts, secrets or tokens."""
    if text(pod, "spec", "serviceAccountName") or text(pod, "spec", "serviceAccount"):
        return "a mirror pod may not reference service accounts"
    if references(pod, "secrets"):
        return "a mirror pod may not reference secrets"
    for volume in items(pod, "spec", "volumes"):
        if any(source.get("serviceAccountToken") is not None for source in items(volume, "projected", "sources")):
            return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def mount_token(pod: Object) -> None:
    """Add the volume with token, CA and namespace. Containers with their own mount at its path keep that one.

    Callers add it only if automountServiceAccountToken is true. Upstream adds it unless the field is false, but here
    most pods never use the API, and each such volume costs two requests when a pod starts.
    """
    spec = pod["spec"]
    containers = [*items(pod, "spec", "initContainers"), *items(pod, "spec", "containers")]
    lacking = [c for c in containers if all(m.get("mountPath") != MOUNT_PATH for m in items(c, "volumeMounts"))]
    if not lacking:
        return
    name = next((str(v.get("name")) for v in items(pod, "spec", "volumes") if _ours(v)), "")
    if not name:
        name = PREFIX + "".join(secrets.choice(LETTERS) for _ in range(5))
        spec["volumes"] = [*items(pod, "spec", "volumes"), _volume(name)]
    for container in lacking:
        mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
        container["volumeMounts"] = [*items(container, "volumeMounts"), mount]


def _ours(volume: Object) -> bool:
    return str(volume.get("name") or "").startswith(PREFIX) and "projected" in volume


def _volume(name: str) -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": SECONDS, "path": "token"}},
        {"configMap": ca},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"defaultMode": 0o644, "sources": sources}}
