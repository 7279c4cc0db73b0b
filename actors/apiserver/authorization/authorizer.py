"""The authorizer: masters, then nodes, the plane's own users, then RBAC. Everything else is denied."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from actors.apiserver.api.errors import Forbidden, NotFound, TooManyRequests, Unauthorized
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import ANONYMOUS, AUTHENTICATED, User
from actors.apiserver.authorization.node_rules import READ, NodeRules, is_node, node_name
from actors.apiserver.authorization.rbac.policy import Policy
from actors.apiserver.authorization.rbac.rules import Decision
from protocols.errors import NodeplaneError
from protocols.kinds.rbac.policy_rule import PolicyRule
from protocols.kube.meta import Object

MASTERS = "system:masters"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
DISCOVERY_PATHS = ("/api", "/apis", "/openapi")
WRITE = ("create", "update", "patch", "delete")
EVERYTHING = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), urls=("*",)))


class PlaneRule(msgspec.Struct, frozen=True):
    """Verbs that a user of the plane may use on resources of a group; `*` matches all."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Names of objects; empty for all."""

    def allows(self, wanted: Attributes) -> bool:
        return (
            self.group in ("*", wanted.group)
            and ("*" in self.resources or wanted.full_resource in self.resources)
            and ("*" in self.verbs or wanted.verb in self.verbs)
            and (not self.names or wanted.name in self.names)
        )

    def policy(self) -> PolicyRule:
        return PolicyRule(self.verbs, (self.group,), self.resources, self.names)


CERTIFICATES, KUBERNETES = "certificates.k8s.io", "kubernetes.io"
KUBELET_CLIENT = f"{KUBERNETES}/kube-apiserver-client-kubelet"
SIGNED = (f"{KUBERNETES}/kube-apiserver-client", KUBELET_CLIENT, f"{KUBERNETES}/kubelet-serving")
COMMON = (
    *(PlaneRule(group, ("events",), (*READ, "create", "update", "patch")) for group in ("", "events.k8s.io")),
    PlaneRule("coordination.k8s.io", ("leases",), (*READ, "create", "update", "patch")),
    PlaneRule("", ("namespaces", "nodes", "pods"), READ),
    PlaneRule("resource.k8s.io", ("*",), READ),
)
USERS: dict[str, tuple[PlaneRule, ...]] = {
    "system:kube-scheduler": (
        *COMMON,
        PlaneRule("", ("pods/binding",), ("create",)),
        PlaneRule("", ("pods/status",), ("update", "patch")),
        PlaneRule("", ("pods",), ("delete",)),  # preemption
        PlaneRule("policy", ("poddisruptionbudgets",), READ),
        PlaneRule("", ("persistentvolumeclaims",), READ),
        PlaneRule("storage.k8s.io", ("storageclasses",), READ),
        PlaneRule("resource.k8s.io", ("resourceclaims",), ("create", "update", "delete")),  # of extended resources
        PlaneRule("resource.k8s.io", ("resourceclaims/status", "resourceclaims/binding"), ("update",)),
    ),
    "system:kube-controller-manager": (
        *COMMON,
        PlaneRule("", ("namespaces", "namespaces/status", "namespaces/finalize"), WRITE),
        PlaneRule("", ("serviceaccounts", "configmaps", "secrets"), (*READ, *WRITE, "deletecollection")),
        PlaneRule("", ("nodes", "nodes/status"), ("update", "patch", "delete")),
        PlaneRule("", ("pods", "pods/status"), ("create", "update", "patch", "delete", "deletecollection")),
        PlaneRule("", ("events",), ("delete", "deletecollection")),
        PlaneRule("coordination.k8s.io", ("leases",), ("delete", "deletecollection")),
        PlaneRule("apps", ("replicasets", "controllerrevisions"), ("create",)),
        PlaneRule("discovery.k8s.io", ("endpointslices",), ("create",)),
        PlaneRule("resource.k8s.io", ("resourceclaims",), ("create", "update")),
        PlaneRule("resource.k8s.io", ("resourceclaims/status", "devicetaintrules/status"), ("update", "patch")),
        PlaneRule("resource.k8s.io", ("resourceclaims/binding",), ("update",)),
        PlaneRule(CERTIFICATES, ("signers",), ("approve",), (KUBELET_CLIENT,)),
        PlaneRule(CERTIFICATES, ("signers",), ("sign",), SIGNED),
        PlaneRule("*", ("*",), (*READ, "patch", "delete", "deletecollection")),  # garbage, and what is in a namespace
    ),
}


OPEN = Decision(True, "open to everybody")
FRESH_SECONDS = 1.0
"""Longest wait for the newest pods before a node's request is denied, and for the newest roles before one is bound."""


class Authorizer:
    """Decides by the rules of nodes and by RBAC on what replicas show. Only a node's denial waits for the store."""

    def __init__(self, nodes: NodeRules, policy: Callable[[], Policy | None]) -> None:
        """`policy` returns None while the RBAC objects are not known yet."""
        self._nodes = nodes
        self.policy = policy

    def check(self, user: User, wanted: Attributes) -> Decision:
        """Return the decision on a request that is allowed.

        Raises Unauthorized for anonymous users, TooManyRequests while RBAC is not known, else Forbidden.
        """
        if not wanted.resource and wanted.path in PUBLIC_PATHS:
            return OPEN
        if user.name == ANONYMOUS.name:
            raise Unauthorized
        decision = self.decide(user, wanted)
        if decision.allowed:
            return decision
        if self.policy() is None:
            raise TooManyRequests("storage is (re)initializing: roles are not known yet", retry_after=1)
        raise Forbidden(denied(user, wanted), attributes_details(wanted))

    async def check_again(
        self, user: User, wanted: Attributes, newest_pods: Callable[[], Awaitable[object]]
    ) -> Decision:
        """Decide on a denied request once more, with the newest pods if it is a node's.

        The node may know a pod from the watch of another process, which shows its own writes first.

        Raises Forbidden, and NotFound for a pod that does not exist: a kubelet then knows that it was deleted.
        """
        newest = False
        if is_node(user):
            with suppress(NodeplaneError, TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    await newest_pods()
                newest = True
        if newest and not self.allows(user, wanted) and self._nodes.is_missing(wanted):
            raise NotFound(f'pods "{wanted.name}" not found', attributes_details(wanted))
        return self.check(user, wanted)

    def allows(self, user: User, wanted: Attributes) -> bool:
        return self.decide(user, wanted).allowed

    def decide(self, user: User, wanted: Attributes) -> Decision:
        if MASTERS in user.groups:
            return Decision(True, f"member of {MASTERS}")
        if not wanted.resource and wanted.verb == "get" and wanted.path in PUBLIC_PATHS:
            return OPEN
        if user.name == ANONYMOUS.name:
            return Decision(False)
        node = node_name(user)
        if node and wanted.resource and self._nodes.allows(node, wanted):
            return Decision(True, "node authorizer")
        if self._plane_allows(user, wanted):
            return Decision(True, "user of the plane")
        policy = self.policy()
        return policy.decide(user, wanted) if policy is not None else Decision(False)

    def _plane_allows(self, user: User, wanted: Attributes) -> bool:
        """Return True for requests that must be allowed before any RBAC object exists."""
        if wanted.resource:
            return any(rule.allows(wanted) for rule in USERS.get(user.name, ()))
        known = user.name in USERS or bool(node_name(user))
        return known and wanted.verb == "get" and AUTHENTICATED in user.groups and _below(wanted.path, DISCOVERY_PATHS)

    def rules(self, user: User, namespace: str) -> list[PolicyRule]:
        """Return all rules of a user in a namespace, except those of nodes, which depend on objects."""
        if MASTERS in user.groups:
            return list(EVERYTHING)
        rules = [rule.policy() for rule in USERS.get(user.name, ())]
        policy = self.policy()
        return rules + ([grant.rule for grant in policy.grants(user, namespace)] if policy is not None else [])


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def full_name(wanted: Attributes) -> str:
    """Return the resource with its group, as error texts name it."""
    return f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource


def attributes_details(wanted: Attributes) -> Object:
    """Return the `details` of a Status about a request that was denied."""
    return {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}


def denied(user: User, wanted: Attributes) -> str:
    """Return the message of a Forbidden error."""
    if not wanted.resource:
        return f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    subject = f'{full_name(wanted)} "{wanted.name}"' if wanted.name else full_name(wanted)
    return (
        f'{subject} is forbidden: User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" '
        f'in API group "{wanted.group}" {where}'
    )
