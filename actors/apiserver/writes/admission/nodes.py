"""NodeRestriction: limits of what a node may write that depend on the content of objects.

Pure. Rules and texts are those of upstream's plugin/pkg/admission/noderestriction. A node writes only its Node object
and objects of its own pods, and creates nothing that would let it read or control other objects.
"""

from collections.abc import Callable, Iterable

import msgspec

from actors.apiserver.api.errors import NotFound
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.authorization.node_graph import references
from actors.apiserver.authorization.node_rules import LEASE_NAMESPACE, Lookup, is_node, node_name
from actors.apiserver.writes.admission.rule import EVERY_KIND, Rule, Step
from actors.apiserver.writes.change import CREATE, DELETE, UPDATE, Change
from protocols.kube.meta import Object
from protocols.kube.objects import MIRROR, at, is_mirror, items, text

OWN_DOMAINS = ("kubernetes.io", "k8s.io")
RESTRICTED_DOMAIN = "node-restriction.kubernetes.io"
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
RESIZE_STATUS = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
"""The fields of a PersistentVolumeClaim's status that a node reports after it resized a file system."""


class NodeWrite(msgspec.Struct, frozen=True):
    """A write by the node `node`.

    `new` is empty for a deletion, `old` for a creation. `old` of an eviction is the pod.
    """

    node: str
    operation: str
    wanted: Attributes
    new: Object
    old: Object
    nodes: Lookup


class NodeRestriction(Rule):
    """Check writes whose author is a node."""

    step, covers = Step.CHECK_AUTHOR, {EVERY_KIND: (CREATE, UPDATE, DELETE)}

    def concerns(self, change: Change) -> bool:
        return is_node(change.author)

    def apply(self, change: Change) -> None:
        node, new, old = node_name(change.author), change.sent, change.old or {}
        write = NodeWrite(node, change.operation, change.attributes, new, old, self.given.nodes)
        change.reject(node_fault(write))


def node_fault(write: NodeWrite) -> str:
    """Return why the node may not write this; empty if it may. Raises NotFound if its Node object is missing."""
    if not write.node:
        return "could not determine node from user"
    rule = RULES.get((write.wanted.group, write.wanted.resource))
    return rule(write) if rule is not None else ""


def _pods(write: NodeWrite) -> str:
    subresources = {"": _pod, "status": _pod_status, "eviction": _eviction}
    rule = subresources.get(write.wanted.subresource)
    if rule is None:
        return f"unexpected pod subresource \"{write.wanted.subresource}\", only 'status' and 'eviction' are allowed"
    return rule(write)


def _pod(write: NodeWrite) -> str:
    if write.operation == CREATE:
        return _mirror_fault(write)
    if write.operation != DELETE:
        return f'unexpected operation "{UPDATE}", node "{write.node}" can only create and delete mirror pods'
    if text(write.old, "spec", "nodeName") != write.node:
        return f'node "{write.node}" can only delete pods with spec.nodeName set to itself'
    return ""


def _mirror_fault(write: NodeWrite) -> str:
    node, pod = write.node, write.new
    if not is_mirror(pod):
        return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
    if text(pod, "spec", "nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    if fault := _owner_fault(write):
        return fault
    referenced = _referenced(pod)
    return f'node "{node}" can not create pods that reference {referenced}' if referenced else ""


def _referenced(pod: Object) -> str:
    """Return the first kind of objects that the pod refers to and a mirror pod may not; empty if there is none."""
    volumes = items(pod, "spec", "volumes")
    projected = [source for volume in volumes for source in items(volume, "projected", "sources")]
    kinds = {
        "a service account": bool(account_of(pod)),
        "secrets": bool(references(pod, "secrets")),
        "configmaps": bool(references(pod, "configmaps")),
        "clustertrustbundles": any(source.get("clusterTrustBundle") for source in projected),
        "persistentvolumeclaims": any(volume.get("persistentVolumeClaim") is not None for volume in volumes),
        "resourceclaims": bool(items(pod, "spec", "resourceClaims")),
    }
    return next((kind for kind, is_there in kinds.items() if is_there), "")


def account_of(pod: Object) -> str:
    """Return the service account of a pod. `serviceAccount` is the deprecated name of the field."""
    return text(pod, "spec", "serviceAccountName") or text(pod, "spec", "serviceAccount")


def _owner_fault(write: NodeWrite) -> str:
    node, owners = write.node, items(write.new, "metadata", "ownerReferences")
    if len(owners) > 1:
        return f'node "{node}" can only create pods with a single owner reference set to itself'
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        return f'node "{node}" can only create pods with an owner reference set to itself'
    if owner.get("controller") is not True:
        return f'node "{node}" can only create pods with a controller owner reference set to itself'
    if owner.get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    stored = write.nodes(node)
    if stored is None:
        raise NotFound(f'node "{node}" not found', {"name": node, "kind": "node"})
    uid = text(stored, "metadata", "uid")
    return "" if owner.get("uid") == uid else f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}"


def _pod_status(write: NodeWrite) -> str:
    node, new, old = write.node, write.new, write.old
    if write.operation != UPDATE:
        return f'unexpected operation "{write.operation}"'
    if text(old, "spec", "nodeName") != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
    if (at(new, "metadata", "labels") or {}) != (at(old, "metadata", "labels") or {}):
        return f'node "{node}" cannot update labels through pod status'
    if _claim_statuses(new) != _claim_statuses(old):
        return f'node "{node}" cannot update resource claim statues'  # sic: clients know upstream's spelling
    if (at(new, "status", "extendedResourceClaimStatus") or None) != (
        at(old, "status", "extendedResourceClaimStatus") or None
    ):
        return f'node "{node}" cannot update extended resource claim status'
    return ""


def _claim_statuses(pod: Object) -> list[tuple[object, object]]:
    statuses = items(pod, "status", "resourceClaimStatuses")
    return [(status.get("name"), status.get("resourceClaimName")) for status in statuses]


def _eviction(write: NodeWrite) -> str:
    if write.operation != CREATE:
        return f"unexpected operation {write.operation}"
    if text(write.old, "spec", "nodeName") != write.node:
        return f"node {write.node} can only evict pods with spec.nodeName set to itself"
    return ""


def _node(write: NodeWrite) -> str:
    node, new, old = write.node, write.new, write.old
    if write.wanted.name != node:
        return f'node "{node}" is not allowed to modify node "{write.wanted.name}"'
    if write.operation == CREATE:
        if at(new, "spec", "configSource") is not None:
            return f'node "{node}" is not allowed to create pods with a non-nil configSource'
        labels = _forbidden_labels(new, {})
        return f'node "{node}" is not allowed to set the following labels: {labels}' if labels else ""
    return _node_change(node, new, old) if write.operation == UPDATE else ""


def _node_change(node: str, new: Object, old: Object) -> str:
    source = at(new, "spec", "configSource")
    if source is not None and source != at(old, "spec", "configSource"):
        return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
    if (at(new, "spec", "taints") or []) != (at(old, "spec", "taints") or []):
        return f'node "{node}" is not allowed to modify taints'
    if (at(new, "metadata", "ownerReferences") or []) != (at(old, "metadata", "ownerReferences") or []):
        return f'node "{node}" is not allowed to modify ownerReferences'
    labels = _forbidden_labels(new, old)
    return f"is not allowed to modify labels: {labels}" if labels else ""


def _forbidden_labels(new: Object, old: Object) -> str:
    now, before = at(new, "metadata", "labels") or {}, at(old, "metadata", "labels") or {}
    changed = (key for key in {*now, *before} if key not in now or key not in before or now[key] != before[key])
    return ", ".join(sorted(key for key in changed if not node_may_label(key)))


def node_may_label(key: str) -> bool:
    """Return True if a node may set this label: any of other domains, of Kubernetes' own only kubelet's."""
    domain = key.partition("/")[0] if "/" in key else ""
    if _within(domain, (RESTRICTED_DOMAIN,)):
        return False
    return not _within(domain, OWN_DOMAINS) or key in KUBELET_LABELS or _within(domain, KUBELET_DOMAINS)


def _within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def _volume_claim(write: NodeWrite) -> str:
    if write.wanted.subresource != "status":
        return "may only update PVC status"
    if write.operation != UPDATE:
        return f'unexpected operation "{write.operation}"'
    if _without_resize(write.new) == _without_resize(write.old):
        return ""
    return f'node "{write.node}" is not allowed to update fields other than status.quantity and status.conditions'


def _without_resize(claim: Object) -> Object:
    metadata = {k: v for k, v in (claim.get("metadata") or {}).items() if k not in ("resourceVersion", "managedFields")}
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in RESIZE_STATUS}
    return {**claim, "metadata": metadata, "status": status}


def _lease(write: NodeWrite) -> str:
    if write.wanted.namespace != LEASE_NAMESPACE:
        return f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
    same = write.wanted.name == write.node
    return "" if same else "can only access node lease with the same name as the requesting node"


def _csi_node(write: NodeWrite) -> str:
    same = write.wanted.name == write.node
    return "" if same else "can only access CSINode with the same name as the requesting node"


def _slice(write: NodeWrite) -> str:
    """Check what the authorizer cannot: new slices, and each slice of a deleted collection."""
    verb, obj = ("delete", write.old) if write.operation == DELETE else ("create", write.new)
    if write.operation == UPDATE or text(obj, "spec", "nodeName") == write.node:
        return ""
    return f"can only {verb} ResourceSlice with the same NodeName as the requesting node"


RULES: dict[tuple[str, str], Callable[[NodeWrite], str]] = {
    ("", "pods"): _pods,
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _volume_claim,
    ("coordination.k8s.io", "leases"): _lease,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("resource.k8s.io", "resourceslices"): _slice,
}
"""Rules by group and resource. Token requests are checked by their endpoint, against the bound pod."""
