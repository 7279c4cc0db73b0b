"""ServiceAccount admission: pull secrets, and the volume with token, CA and namespace at its usual place.

The volume is added only if the pod or its account sets automountServiceAccountToken to true. Upstream adds it unless
one of them is false. Here most pods never use the API, and each such volume costs two requests when a pod starts.
"""

import secrets
from typing import Any

from actors.apiserver.api.objects import Obj, at, items, text
from actors.apiserver.authorization.node_graph import references

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "kube-api-access-"
SECONDS = 3607
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def wants_token(pod: Obj, account: Obj | None) -> bool:
    """Return True if the pod gets a token. The field of the pod overrides that of its account."""
    own = at(pod, "spec", "automountServiceAccountToken")
    return bool((account or {}).get("automountServiceAccountToken") if own is None else own)


def wants_pull_secrets(pod: Obj, account: Obj | None) -> bool:
    """Return True if the pod gets the pull secrets of its account: it has none of its own."""
    if items(pod, "spec", "imagePullSecrets"):
        return False
    return bool((account or {}).get("imagePullSecrets"))


def mirror_fault(pod: Obj) -> str:
    """Return why this mirror pod is rejected: it may not refer to accounts, secrets or tokens."""
    if text(pod, "spec", "serviceAccountName") or text(pod, "spec", "serviceAccount"):
        return "a mirror pod may not reference service accounts"
    if references(pod, "secrets"):
        return "a mirror pod may not reference secrets"
    for volume in items(pod, "spec", "volumes"):
        if any(source.get("serviceAccountToken") is not None for source in items(volume, "projected", "sources")):
            return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def mount_token(pod: Obj) -> None:
    """Add the token volume. Containers with a mount of their own at its path keep that one."""
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


def _ours(volume: Obj) -> bool:
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
