"""Admission: rules for authorized writes that depend on their author or on other objects.

Nodes write only their own objects, no user grants permissions it does not hold, and mirror pods refer to nothing.
"""

import msgspec
from msgspec.structs import replace

from actors.apiserver.api.errors import Forbidden
from actors.apiserver.api.objects import at, is_mirror, items
from actors.apiserver.api.stored import fresh_copy
from actors.apiserver.api.target import Attributes, Target
from actors.apiserver.api.user import User
from actors.apiserver.authorization.authorizer import Authorizer, attributes_details, full_name
from actors.apiserver.authorization.node_rules import Lookup, is_node, node_of
from actors.apiserver.authorization.rbac.rules import GROUP as RBAC
from actors.apiserver.writes.admission.escalation import EscalationCheck
from actors.apiserver.writes.admission.nodes import CREATE, DELETE, UPDATE, NodeWrite, account_of, node_fault
from actors.apiserver.writes.admission.pods import (
    Find,
    apply_class,
    concerns,
    mirror_fault,
    mount_token,
    names_class,
    wants_pull_secrets,
    wants_token,
)
from actors.apiserver.writes.loop import Mutation
from protocols.kube.meta import Object

OPERATIONS = {"delete": DELETE, "deletecollection": DELETE, "create": CREATE}
"""Upstream's admission operations by verb; all other verbs are updates."""


class Admission(msgspec.Struct, frozen=True):
    """All admission rules of the server."""

    authorizer: Authorizer
    nodes: Lookup
    accounts: Lookup = lambda key: None
    """Lookup of service accounts."""
    runtime_class: Find | None = None

    def concerns(self, user: User, target: Target) -> bool:
        """Return True if admission checks or changes objects that this user creates."""
        row = target.resource
        return target.verb != "create" or row.full_name == "pods" or row.group == RBAC or is_node(user)

    async def prepared(self, target: Target, obj: Object) -> None:
        """Apply the RuntimeClass of a new pod, before validation. Raises Forbidden."""
        row = target.resource
        if self.runtime_class is None or (row.group, row.plural, target.subresource) != ("", "pods", ""):
            return
        if isinstance(obj.get("metadata"), dict) and concerns(obj):
            name = names_class(obj)
            fault = apply_class(obj, await self.runtime_class(name) if name else None)
            self._reject(_attributes("create", target, obj), fault)

    def created(self, user: User, target: Target, obj: Object) -> None:
        """Check a new object. A pod gets token and pull secrets of its service account. Raises Forbidden."""
        if not isinstance(obj.get("metadata"), dict):
            return
        wanted = _attributes("create", target, obj)
        if target.verb != "create":  # a PUT or an apply that finds nothing
            self.authorizer.check(user, wanted)
        self._check(user, target, wanted, CREATE, obj, {})
        if wanted.full_resource == "pods" and not wanted.group:
            self._add_account_parts(wanted, obj)

    def _add_account_parts(self, wanted: Attributes, pod: Object) -> None:
        if not isinstance(pod.get("spec"), dict):
            return
        if is_mirror(pod):
            self._reject(wanted, mirror_fault(pod))
            return
        account = self.accounts(f"{wanted.namespace}/{account_of(pod) or 'default'}")
        if wants_token(pod, account):
            mount_token(pod)
        if wants_pull_secrets(pod, account):
            pod["spec"]["imagePullSecrets"] = [dict(secret) for secret in items(account or {}, "imagePullSecrets")]

    def mutation(self, user: User, target: Target, mutate: Mutation) -> Mutation:
        """Return `mutate` with a check of the change. The result also raises Forbidden."""
        if not is_node(user) and target.resource.group != RBAC:
            return mutate
        operation = OPERATIONS.get(target.verb, UPDATE)
        check = self._before if operation != UPDATE else self._after
        return check(user, target, operation, mutate)

    def _before(self, user: User, target: Target, operation: str, mutate: Mutation) -> Mutation:
        def checked(old: Object) -> Object | None:
            if is_node(user):
                self._check(user, target, _attributes(target.verb, target, old), operation, {}, old)
            return mutate(old)

        return checked

    def _after(self, user: User, target: Target, operation: str, mutate: Mutation) -> Mutation:
        def checked(old: Object) -> Object | None:
            before = fresh_copy(old)
            new = mutate(old)
            if new is not None:
                self._check(user, target, _attributes("update", target, new), operation, new, before)
            return new

        return checked

    def _check(self, user: User, target: Target, wanted: Attributes, operation: str, new: Object, old: Object) -> None:
        if is_node(user):
            write = NodeWrite(node_of(user), operation, wanted, new, old, self.nodes)
            self._reject(wanted, node_fault(write))
        if new:
            grant = replace(wanted, name=target.name)
            self._reject(wanted, EscalationCheck(self.authorizer).fault(user, grant, new, old))

    def _reject(self, wanted: Attributes, fault: str) -> None:
        if fault:
            raise Forbidden(f'{full_name(wanted)} "{wanted.name}" is forbidden: {fault}', attributes_details(wanted))


def _attributes(verb: str, target: Target, obj: Object) -> Attributes:
    row = target.resource
    name = target.name or str(at(obj, "metadata", "name") or "")
    return Attributes(verb, "", row.group, row.plural, target.subresource, target.namespace, name)
