"""The node authorizer: requests that a node may make in addition to what RBAC grants it."""

from collections.abc import Callable

import msgspec

from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.node_graph import VOLUME_CLAIMS
from protocols.kube.meta import Object
from protocols.kube.objects import at, text

NODES = "system:nodes"
NODE_PREFIX = "system:node:"
LEASE_NAMESPACE = "kube-node-lease"
READ = ("get", "list", "watch")

Lookup = Callable[[str], Object | None]
"""Return the replica's object of a storage key."""
Uses = Callable[[str, str, str, str], bool]
"""Return True if a pod on (node) refers to (resource, namespace, name)."""


def is_node(user: User) -> bool:
    """Return True if the user is a node. One without a name after the prefix is a node that may write nothing."""
    return user.name.startswith(NODE_PREFIX) and NODES in user.groups


def node_name(user: User) -> str:
    """Return the name of the node that a user is; empty for other users."""
    return user.name.removeprefix(NODE_PREFIX) if is_node(user) else ""


class NodeRules(msgspec.Struct, frozen=True):
    """Rules of upstream's node authorizer; `uses` finds the objects that pods of a node refer to.

    An object that the replica does not have (yet) is no node's: the store may have it for another one. Deletions of
    pods pass, since NodeRestriction checks them against the stored object.
    """

    pod: Lookup
    resource_slice: Lookup
    uses: Uses
    volume: Lookup = lambda name: None
    attachment: Lookup = lambda name: None

    def allows(self, node: str, wanted: Attributes) -> bool:
        rules: dict[tuple[str, str], Callable[[str, Attributes], bool]] = {
            ("", "nodes"): self._nodes,
            ("", "pods"): self._pods,
            ("", "events"): _events,
            ("events.k8s.io", "events"): _events,
            ("", "secrets"): self._referenced,
            ("", "configmaps"): self._referenced,
            ("", "serviceaccounts"): self._accounts,
            ("", VOLUME_CLAIMS): self._volume_claims,
            ("", "persistentvolumes"): self._volumes,
            ("storage.k8s.io", "volumeattachments"): self._attachments,
            ("coordination.k8s.io", "leases"): self._leases,
            ("resource.k8s.io", "resourceslices"): self._slices,
            ("resource.k8s.io", "resourceclaims"): self._claims,
            ("", "services"): _reads,
            ("node.k8s.io", "runtimeclasses"): _reads,
            ("storage.k8s.io", "csidrivers"): _reads,
            ("storage.k8s.io", "csinodes"): _own_driver_list,
            ("authentication.k8s.io", "tokenreviews"): _creates,
            ("authorization.k8s.io", "subjectaccessreviews"): _creates,
            ("certificates.k8s.io", "certificatesigningrequests"): _requests,
        }
        rule = rules.get((wanted.group, wanted.resource))
        return rule is not None and rule(node, wanted)

    def _nodes(self, node: str, wanted: Attributes) -> bool:
        if wanted.subresource:
            return wanted.subresource == "status" and wanted.name == node and wanted.verb in ("get", "update", "patch")
        own = wanted.name == node or ("metadata.name", node) in wanted.fields
        return wanted.verb == "create" or (own and wanted.verb in (*READ, "update", "patch"))

    def _pods(self, node: str, wanted: Attributes) -> bool:
        if wanted.verb in ("list", "watch"):
            return ("spec.nodeName", node) in wanted.fields
        if wanted.verb == "create" and not wanted.subresource:
            return True
        pod = self.pod(f"{wanted.namespace}/{wanted.name}")
        if wanted.subresource == "eviction":
            return wanted.verb == "create" and _on(node, pod)
        if wanted.subresource:
            return wanted.subresource == "status" and wanted.verb in ("get", "update", "patch") and _on(node, pod)
        return _on(node, pod) if wanted.verb == "get" else wanted.verb == "delete" and (pod is None or _on(node, pod))

    def is_missing(self, wanted: Attributes) -> bool:
        """Return True for a GET of a pod that the replica does not have."""
        asked = (wanted.group, wanted.resource, wanted.subresource, wanted.verb) == ("", "pods", "", "get")
        return asked and self.pod(f"{wanted.namespace}/{wanted.name}") is None

    def _referenced(self, node: str, wanted: Attributes) -> bool:
        """Allow reads by name only: a list or watch must select the one name."""
        if wanted.subresource or wanted.verb not in READ:
            return False
        return self.uses(node, wanted.resource, wanted.namespace, wanted.name)

    def _accounts(self, node: str, wanted: Attributes) -> bool:
        """Allow tokens of accounts that its pods run as. The bound pod is checked with the body."""
        if wanted.subresource == "token":
            return wanted.verb == "create" and self.uses(node, wanted.resource, wanted.namespace, wanted.name)
        return wanted.verb == "get" and not wanted.subresource and self._referenced(node, wanted)

    def _claims(self, node: str, wanted: Attributes) -> bool:
        if wanted.subresource or wanted.verb != "get":
            return False
        return self.uses(node, wanted.resource, wanted.namespace, wanted.name)

    def _volume_claims(self, node: str, wanted: Attributes) -> bool:
        verbs = {"": ("get",), "status": ("get", "update", "patch")}.get(wanted.subresource, ())
        return wanted.verb in verbs and self.uses(node, wanted.resource, wanted.namespace, wanted.name)

    def _volumes(self, node: str, wanted: Attributes) -> bool:
        if wanted.subresource or wanted.verb != "get":
            return False
        claim = at(self.volume(wanted.name), "spec", "claimRef")
        return self.uses(node, VOLUME_CLAIMS, text(claim, "namespace"), text(claim, "name"))

    def _attachments(self, node: str, wanted: Attributes) -> bool:
        return wanted.verb == "get" and not wanted.subresource and _on(node, self.attachment(wanted.name))

    def _leases(self, node: str, wanted: Attributes) -> bool:
        own = wanted.name == node or wanted.verb == "create"
        return (
            wanted.namespace == LEASE_NAMESPACE
            and own
            and wanted.verb in ("get", "create", "update", "patch", "delete")
        )

    def _slices(self, node: str, wanted: Attributes) -> bool:
        if wanted.verb in ("list", "watch", "deletecollection"):
            return ("spec.nodeName", node) in wanted.fields
        if wanted.verb == "create":
            return True
        return wanted.verb in ("get", "update", "patch", "delete") and _on(node, self.resource_slice(wanted.name))


def _events(_node: str, wanted: Attributes) -> bool:
    return wanted.verb in ("create", "update", "patch") and not wanted.subresource


def _reads(node: str, wanted: Attributes) -> bool:
    return wanted.verb in READ and not wanted.subresource


def _own_driver_list(node: str, wanted: Attributes) -> bool:
    """Allow the node's own CSINode, which has the name of the node."""
    return wanted.verb == "create" or (wanted.name == node and wanted.verb in ("get", "update", "patch", "delete"))


def _creates(_node: str, wanted: Attributes) -> bool:
    return wanted.verb == "create"


def _requests(_node: str, wanted: Attributes) -> bool:
    return not wanted.subresource and wanted.verb in (*READ, "create")


def _on(node: str, obj: Object | None) -> bool:
    return text(obj, "spec", "nodeName") == node
