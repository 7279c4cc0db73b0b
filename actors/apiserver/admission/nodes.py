"""What a node may write: only itself, and nothing that would reach beyond itself (labels, taints, references)."""

from collections.abc import Iterable

from actors.apiserver.authorization.attributes import Attributes
from actors.apiserver.authorization.node_graph import references
from actors.apiserver.authorization.node_rules import Lookup
from actors.apiserver.objects.paths import Obj, at, items, text

MIRROR = "kubernetes.io/config.mirror"
OWN_DOMAINS = ("kubernetes.io", "k8s.io")
KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
KUBELET_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
    )
)


def create_fault(node: str, wanted: Attributes, obj: Obj, nodes: Lookup) -> str:
    """Why `node` may not create this object, empty if it may."""
    name = text(obj, "metadata", "name")
    if (wanted.resource, wanted.subresource) == ("serviceaccounts", "token"):
        return ""
    if wanted.resource in ("nodes", "leases") and name != node:
        return f'node "{node}" is not allowed to modify {wanted.resource[:-1]} "{name}"'
    if wanted.resource == "nodes":
        return _label_fault(node, at(obj, "metadata", "labels") or {}, {})
    if wanted.resource in ("pods", "resourceslices") and not wanted.subresource:
        if text(obj, "spec", "nodeName") != node:
            return f'node "{node}" can only create {wanted.resource} with spec.nodeName set to itself'
        return _mirror_fault(node, obj, nodes) if wanted.resource == "pods" else ""
    return ""


def update_fault(node: str, wanted: Attributes, new: Obj, old: Obj) -> str:
    """Why `node` may not make `new` of `old`, empty if it may."""
    if wanted.resource == "nodes":
        return _node_fault(node, new, old)
    if wanted.resource == "pods" and wanted.subresource == "status":
        return _pod_status_fault(node, new, old)
    if wanted.resource == "resourceslices" and text(new, "spec", "nodeName") != node:
        return f'node "{node}" can only keep resourceslices with spec.nodeName set to itself'
    return ""


def _node_fault(node: str, new: Obj, old: Obj) -> str:
    if at(new, "spec", "taints") != at(old, "spec", "taints"):
        return f'node "{node}" is not allowed to modify taints'
    if at(new, "metadata", "ownerReferences") != at(old, "metadata", "ownerReferences"):
        return f'node "{node}" is not allowed to modify ownerReferences'
    return _label_fault(node, at(new, "metadata", "labels") or {}, at(old, "metadata", "labels") or {})


def _pod_status_fault(node: str, new: Obj, old: Obj) -> str:
    if (at(new, "metadata", "labels") or {}) != (at(old, "metadata", "labels") or {}):
        return f'node "{node}" cannot update labels through pod status'
    if at(new, "status", "resourceClaimStatuses") != at(old, "status", "resourceClaimStatuses"):
        return f'node "{node}" cannot update resource claim statuses'
    return ""


def _label_fault(node: str, new: Obj, old: Obj) -> str:
    changed = sorted(key for key in {*new, *old} if new.get(key) != old.get(key))
    refused = [key for key in changed if not node_may_label(key)]
    return f'node "{node}" is not allowed to modify labels: {", ".join(refused)}' if refused else ""


def node_may_label(key: str) -> bool:
    """Labels of others' domains, and the few of Kubernetes' own that tell what a kubelet knows."""
    domain = key.rpartition("/")[0]
    if not _within(domain, OWN_DOMAINS):
        return True
    if _within(domain, ("node-restriction.kubernetes.io",)):
        return False
    return key in KUBELET_LABELS or _within(domain, KUBELET_DOMAINS)


def _within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def _mirror_fault(node: str, pod: Obj, nodes: Lookup) -> str:
    if MIRROR not in (at(pod, "metadata", "annotations") or {}):
        return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
    fault = _owner_fault(node, pod, nodes)
    if fault:
        return fault
    if text(pod, "spec", "serviceAccountName"):
        return f'node "{node}" can not create pods that reference a service account'
    if items(pod, "spec", "resourceClaims"):
        return f'node "{node}" can not create pods that reference resourceclaims'
    for resource in ("secrets", "configmaps"):
        if references(pod, resource):
            return f'node "{node}" can not create pods that reference {resource}'
    return ""


def _owner_fault(node: str, pod: Obj, nodes: Lookup) -> str:
    owners = items(pod, "metadata", "ownerReferences")
    own = f'node "{node}" can only create pods with a controller owner reference set to itself'
    if len(owners) != 1 or owners[0].get("controller") is not True:
        return own
    if (owners[0].get("apiVersion"), owners[0].get("kind"), owners[0].get("name")) != ("v1", "Node", node):
        return own
    if owners[0].get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    uid = text(nodes(node), "metadata", "uid")
    return (
        "" if owners[0].get("uid") == uid else f'node "{node}" UID mismatch: expected {uid} got {owners[0].get("uid")}'
    )
