"""What a pod has of its service account. The token: a volume with token, CA and namespace where clients look for them.

Only where the pod or its account says automountServiceAccountToken: true. Upstream mounts it unless somebody says
false; here most pods never ask the API anything, and each such volume is two requests at a pod's start.
"""

import secrets
from typing import Any

from actors.apiserver.api.objects import Obj, at, items, text
from actors.apiserver.authorization.node_graph import references

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "kube-api-access-"
SECONDS = 3607
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def wants_token(pod: Obj, account: Obj | None) -> bool:
    """The pod's own word goes before its account's."""
    own = at(pod, "spec", "automountServiceAccountToken")
    return bool((account or {}).get("automountServiceAccountToken") if own is None else own)


def wants_pull_secrets(pod: Obj, account: Obj | None) -> bool:
    """A pod that names none of its own has those of its account."""
    if items(pod, "spec", "imagePullSecrets"):
        return False
    return bool((account or {}).get("imagePullSecrets"))


def mirror_fault(pod: Obj) -> str:
    """Return why nobody may create this mirror pod: it must refer to nothing that an account gives access to."""
    if text(pod, "spec", "serviceAccountName") or text(pod, "spec", "serviceAccount"):
        return "a mirror pod may not reference service accounts"
    if references(pod, "secrets"):
        return "a mirror pod may not reference secrets"
    for volume in items(pod, "spec", "volumes"):
        if any(source.get("serviceAccountToken") is not None for source in items(volume, "projected", "sources")):
            return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def mount_token(pod: Obj) -> None:
    """In place. Containers that have something of their own there keep it."""
    spec = pod["spec"]
    containers = [*items(pod, "spec", "initContainers"), *items(pod, "spec", "containers")]
    lacking = [c for c in containers if all(m.get("mountPath") != PLACE for m in items(c, "volumeMounts"))]
    if not lacking:
        return
    name = next((str(v.get("name")) for v in items(pod, "spec", "volumes") if _ours(v)), "")
    if not name:
        name = PREFIX + "".join(secrets.choice(LETTERS) for _ in range(5))
        spec["volumes"] = [*items(pod, "spec", "volumes"), _volume(name)]
    for container in lacking:
        mount = {"name": name, "readOnly": True, "mountPath": PLACE}
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
