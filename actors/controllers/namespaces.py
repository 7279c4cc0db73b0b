"""What every namespace must hold, and what is left to do for one that ends. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from protocols.kube.client import Object
from protocols.kube.meta import terminating
from protocols.kube.resources import ALL, CONFIGMAPS, SERVICEACCOUNTS, Resource

WANTED = ("default", "kube-system", "kube-public", "kube-node-lease")
FINALIZER = "kubernetes"
ROOT_CA = "kube-root-ca.crt"
CONTENT = tuple(resource for resource in ALL if resource.namespaced)


@dataclass(frozen=True)
class Create:
    resource: Resource
    obj: Object
    namespace: str


def missing_namespaces(present: Iterable[str]) -> list[str]:
    return [name for name in WANTED if name not in set(present)]


def contents(namespace: str, ca: str) -> list[Create]:
    """The default service account and the CA that pods would trust."""
    metadata = {"name": "default", "namespace": namespace}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    root = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "namespace": namespace},
        "data": {"ca.crt": ca},
    }
    return [Create(SERVICEACCOUNTS, account, namespace), Create(CONFIGMAPS, root, namespace)]


def ends(namespace: Object) -> bool:
    """Deleted by someone, and still held by our finalizer."""
    return terminating(namespace) and FINALIZER in namespace.get("spec", {}).get("finalizers", [])


def finalized(namespace: Object) -> Object:
    """The body of /finalize once nothing is left in it."""
    finalizers = [name for name in namespace.get("spec", {}).get("finalizers", []) if name != FINALIZER]
    return {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": finalizers}}
