"""Who may do what: denied unless a rule says otherwise. The rules of the plane's own users; RBAC objects later."""

from collections.abc import Callable
from dataclasses import dataclass

from actors.apiserver.auth import ANONYMOUS, AUTHENTICATED
from actors.apiserver.errors import Forbidden, Unauthorized
from actors.apiserver.objects import Obj, text
from actors.apiserver.types import Attributes, User

MASTERS, NODES = "system:masters", "system:nodes"
NODE_PREFIX = "system:node:"
LEASE_NAMESPACE = "kube-node-lease"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
DISCOVERY_PATHS = ("/api", "/apis", "/openapi")
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete")


@dataclass(frozen=True)
class Rule:
    """Verbs on resources of a group; `*` matches all."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def allows(self, wanted: Attributes) -> bool:
        return (
            self.group in ("*", wanted.group)
            and ("*" in self.resources or wanted.full_resource in self.resources)
            and ("*" in self.verbs or wanted.verb in self.verbs)
        )


COMMON = (
    Rule("", ("events",), ("create", "update", "patch", "get", "list", "watch")),
    Rule("coordination.k8s.io", ("leases",), (*READ, "create", "update", "patch")),
    Rule("", ("namespaces", "nodes", "pods"), READ),
    Rule("resource.k8s.io", ("*",), READ),
)
USERS: dict[str, tuple[Rule, ...]] = {
    "system:kube-scheduler": (
        *COMMON,
        Rule("", ("pods/binding",), ("create",)),
        Rule("", ("pods/status",), ("update", "patch")),
        Rule("", ("pods",), ("delete",)),
        Rule("resource.k8s.io", ("resourceclaims", "resourceclaims/status"), ("update", "patch")),
    ),
    "system:kube-controller-manager": (
        *COMMON,
        Rule("", ("namespaces", "namespaces/status", "namespaces/finalize"), WRITE),
        Rule("", ("serviceaccounts", "configmaps", "secrets"), (*READ, *WRITE, "deletecollection")),
        Rule("", ("nodes", "nodes/status"), ("update", "patch", "delete")),
        Rule("", ("pods", "pods/status"), ("create", "update", "patch", "delete", "deletecollection")),
        Rule("", ("events",), ("delete", "deletecollection")),
        Rule("coordination.k8s.io", ("leases",), ("delete", "deletecollection")),
        Rule("resource.k8s.io", ("*",), (*WRITE, "deletecollection")),
    ),
}

PodLookup = Callable[[str], Obj | None]
"""The pod with a key `namespace/name`, as the replica shows it."""
SliceLookup = Callable[[str], Obj | None]


class Authorizer:
    def __init__(self, pod: PodLookup, resource_slice: SliceLookup) -> None:
        self._pod = pod
        self._slice = resource_slice

    def check(self, user: User, wanted: Attributes) -> None:
        """Raises Unauthorized (nobody) or Forbidden (somebody else)."""
        if not wanted.resource and public(wanted.path):
            return
        if user == ANONYMOUS:
            raise Unauthorized
        if not self.allows(user, wanted):
            raise Forbidden(_denied(user, wanted), _details(wanted))

    def allows(self, user: User, wanted: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        if not wanted.resource:
            return wanted.verb == "get" and AUTHENTICATED in user.groups and _below(wanted.path, DISCOVERY_PATHS)
        if any(rule.allows(wanted) for rule in USERS.get(user.name, ())):
            return True
        node = user.name.removeprefix(NODE_PREFIX)
        return node != user.name and NODES in user.groups and self._node_allows(node, wanted)

    def _node_allows(self, node: str, wanted: Attributes) -> bool:
        rules: dict[tuple[str, str], Callable[[str, Attributes], bool]] = {
            ("", "nodes"): self._nodes,
            ("", "pods"): self._pods,
            ("", "events"): lambda _node, w: w.verb in ("create", "update", "patch"),
            ("coordination.k8s.io", "leases"): self._leases,
            ("resource.k8s.io", "resourceslices"): self._slices,
            ("resource.k8s.io", "resourceclaims"): lambda _node, w: w.verb in READ and not w.subresource,
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
        pod = self._pod(f"{wanted.namespace}/{wanted.name}")
        if wanted.subresource:
            return wanted.subresource == "status" and wanted.verb in ("get", "update", "patch") and _on(node, pod)
        return wanted.verb in ("get", "delete") and (pod is None or _on(node, pod))

    def _leases(self, node: str, wanted: Attributes) -> bool:
        own = wanted.name == node or wanted.verb == "create"
        return wanted.namespace == LEASE_NAMESPACE and own and wanted.verb in ("get", *WRITE)

    def _slices(self, node: str, wanted: Attributes) -> bool:
        if wanted.verb in ("list", "watch", "deletecollection"):
            return ("spec.nodeName", node) in wanted.fields
        if wanted.verb == "create":
            return True
        found = self._slice(wanted.name)
        return wanted.verb in ("get", "update", "patch", "delete") and (found is None or _on(node, found))


def public(path: str) -> bool:
    return _below(path, PUBLIC_PATHS)


def check_written(user: User, wanted: Attributes, obj: Obj) -> None:
    """What a node may put into a body it creates. Raises Forbidden."""
    node = user.name.removeprefix(NODE_PREFIX)
    if node == user.name or NODES not in user.groups or wanted.verb != "create" or wanted.subresource:
        return
    named = text(obj, "metadata", "name")
    problem = ""
    if wanted.resource in ("nodes", "leases") and named != node:
        problem = f'node "{node}" cannot {wanted.verb} {wanted.resource} "{named}", only its own'
    if wanted.resource in ("pods", "resourceslices") and text(obj, "spec", "nodeName") != node:
        problem = f'node "{node}" can only create {wanted.resource} with spec.nodeName set to itself'
    if wanted.resource == "pods" and "kubernetes.io/config.mirror" not in (obj["metadata"].get("annotations") or {}):
        problem = (
            f'pod does not have "kubernetes.io/config.mirror" annotation, node "{node}" can only create mirror pods'
        )
    if problem:
        raise Forbidden(f'{_full_name(wanted)} "{named}" is forbidden: {problem}', _details(wanted))


def _on(node: str, obj: Obj | None) -> bool:
    return text(obj, "spec", "nodeName") == node


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def _full_name(wanted: Attributes) -> str:
    return f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource


def _details(wanted: Attributes) -> Obj:
    return {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}


def _denied(user: User, wanted: Attributes) -> str:
    if not wanted.resource:
        return f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    subject = f'{_full_name(wanted)} "{wanted.name}"' if wanted.name else _full_name(wanted)
    return (
        f'{subject} is forbidden: User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" '
        f'in API group "{wanted.group}" {where}'
    )
