"""Admission of pods by their service account: it exists, and they get its token and pull secrets.

Follows upstream's plugin ServiceAccount. Clients match on the texts.
"""

import asyncio
import random
import secrets
from typing import Any

from actors.apiserver.writes.admission.rule import FindAccount, PodRule
from actors.apiserver.writes.change import Change
from protocols.kube.meta import Object
from protocols.kube.objects import at, is_mirror, items, text

PLUGIN = "ServiceAccount"
DEFAULT = "default"
ATTEMPTS = 10
"""Lookups of a default account: the controller creates it after its namespace."""
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 0.2
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "kube-api-access-"
SECONDS = 3607
"""Lifetime of an automatic token; the 7 seconds are upstream's mark of one."""
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class ServiceAccounts(PodRule):
    """Set the service account of a new pod, its token volume and pull secrets."""

    async def complete(self, change: Change, pod: Object) -> None:
        find = self.given.service_account
        if find is not None and not is_mirror(pod):
            change.reject(await admit_pod(pod, change.target.namespace, find))


async def admit_pod(pod: Object, namespace: str, find: FindAccount) -> str:
    """Complete a new pod that is no mirror pod. Return why it is rejected; empty if it is not."""
    spec = pod["spec"]
    name = text(pod, "spec", "serviceAccountName") or DEFAULT
    account = await _found(namespace, name, find)
    if account is None:
        return f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    if wants_token(pod, account):
        mount_token(pod)
    if wants_pull_secrets(pod, account):
        spec["imagePullSecrets"] = [dict(secret) for secret in items(account, "imagePullSecrets")]
    return ""


async def _found(namespace: str, name: str, find: FindAccount) -> Object | None:
    pause = random.uniform(FIRST_PAUSE_S, LAST_PAUSE_S)
    for attempt in range(ATTEMPTS if name == DEFAULT else 1):
        if attempt:
            await asyncio.sleep(pause)
        if (account := await find(namespace, name)) is not None:
            return account
    return None


def wants_token(pod: Object, account: Object) -> bool:
    """Return True if the pod gets a token: neither it nor its account opts out. The pod's field overrides."""
    own = at(pod, "spec", "automountServiceAccountToken")
    return (account.get("automountServiceAccountToken") if own is None else own) is not False


def wants_pull_secrets(pod: Object, account: Object) -> bool:
    """Return True if the pod gets the pull secrets of its account: it has none of its own."""
    return not items(pod, "spec", "imagePullSecrets") and bool(account.get("imagePullSecrets"))


def mount_token(pod: Object) -> None:
    """Add the volume with token, CA and namespace. Containers with their own mount at its path keep that one."""
    spec = pod["spec"]
    containers = [*items(pod, "spec", "initContainers"), *items(pod, "spec", "containers")]
    lacking = [c for c in containers if all(m.get("mountPath") != MOUNT_PATH for m in items(c, "volumeMounts"))]
    if not lacking:
        return
    name = next((str(v["name"]) for v in items(pod, "spec", "volumes") if text(v, "name").startswith(PREFIX)), "")
    if not name:
        name = PREFIX + "".join(secrets.choice(LETTERS) for _ in range(5))
        spec["volumes"] = [*items(pod, "spec", "volumes"), _volume(name)]
    for container in lacking:
        mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
        container["volumeMounts"] = [*items(container, "volumeMounts"), mount]


def _volume(name: str) -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": SECONDS, "path": "token"}},
        {"configMap": ca},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"defaultMode": 0o644, "sources": sources}}
