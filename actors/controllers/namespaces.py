"""What every namespace must hold, and what is left to do for one that ends. Pure."""

from collections.abc import Iterable, Mapping

from actors.controllers.types import Create, Patch
from protocols.kube.meta import Object, key_of, terminating
from protocols.kube.resources import ALL, CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS

WANTED = ("default", "kube-system", "kube-public", "kube-node-lease")
FINALIZER = "kubernetes"
ROOT_CA = "kube-root-ca.crt"
CONTENT = tuple(resource for resource in ALL if resource.namespaced)


def missing_namespaces(present: Iterable[str]) -> list[Create]:
    known = set(present)
    return [
        Create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in WANTED
        if name not in known
    ]


def contents(
    namespace: str, ca: str, accounts: Mapping[str, Object], roots: Mapping[str, Object]
) -> list[Create | Patch]:
    """What a namespace lacks of the default service account and the CA that pods trust; `accounts` and `roots` are the
    existing ones by key."""
    steps: list[Create | Patch] = []
    account = _object(SERVICEACCOUNTS.kind, "default", namespace)
    root = {**_object(CONFIGMAPS.kind, ROOT_CA, namespace), "data": {"ca.crt": ca}}
    if key_of(account) not in accounts:
        steps.append(Create(SERVICEACCOUNTS, account, namespace))
    known = roots.get(key_of(root))
    if known is None:
        steps.append(Create(CONFIGMAPS, root, namespace))
    elif known.get("data") != root["data"]:
        steps.append(Patch(CONFIGMAPS, ROOT_CA, namespace, {"data": root["data"]}))
    return steps


def _object(kind: str, name: str, namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def ends(namespace: Object) -> bool:
    """Deleted by someone, and still held by our finalizer."""
    return terminating(namespace) and FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ())


def finalized(namespace: Object) -> Object:
    """The body of /finalize once nothing is left in it."""
    spec = namespace.get("spec") or {}
    return {**namespace, "spec": {**spec, "finalizers": [name for name in spec["finalizers"] if name != FINALIZER]}}
