"""Admission: rules for authorized writes that depend on their author or on other objects.

Nodes write only their own objects, no user grants permissions it does not hold, and mirror pods refer to nothing.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from actors.apiserver.api.errors import Forbidden, Invalid, invalid_object
from actors.apiserver.api.request.target import Attributes, Target
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import Authorizer, attributes_details, full_name
from actors.apiserver.authorization.node_rules import Lookup, is_node, node_name
from actors.apiserver.writes.admission.certificates import GROUP as CERTIFICATES
from actors.apiserver.writes.admission.certificates import certificate_fault, set_requester
from actors.apiserver.writes.admission.claims import claim_status_causes, is_claim_status
from actors.apiserver.writes.admission.escalation import EscalationCheck
from actors.apiserver.writes.admission.limits import limit_fault, set_defaults
from actors.apiserver.writes.admission.nodes import CREATE, DELETE, UPDATE, NodeWrite, node_fault
from actors.apiserver.writes.admission.pods import Find, apply_class, concerns, mirror_fault, names_class
from actors.apiserver.writes.admission.priority import apply_priority, class_name, default_class, second_default
from actors.apiserver.writes.admission.quota import QuotaAdmission
from actors.apiserver.writes.admission.service_accounts import FindAccount, admit_pod
from actors.apiserver.writes.loop import Charge, Mutation
from actors.apiserver.writes.update import updated
from protocols.kinds.rbac.policy_rule import GROUP as RBAC
from protocols.kube.meta import Object, terminating
from protocols.kube.objects import at, fresh_copy, is_mirror

OPERATIONS = {"delete": DELETE, "deletecollection": DELETE, "create": CREATE}
"""Upstream's admission operations by verb; all other verbs are updates."""
CHECKED = (RBAC, CERTIFICATES)
"""Groups whose writes depend on their author's rights."""
BOUNDED = (("pods", ""), ("persistentvolumeclaims", ""))
"""New objects that limit ranges check."""
BOUNDED_UPDATES = (("pods", "resize"), ("persistentvolumeclaims", ""))
CLASSES = "priorityclasses.scheduling.k8s.io"


class PolicyObjects(msgspec.Struct, frozen=True):
    """Objects of the cluster that admission follows."""

    limit_ranges: Callable[[str], list[Object]] = lambda namespace: []
    priority_classes: Callable[[], list[Object]] = list
    priority_class: Find | None = None
    """Return a PriorityClass by name, from the store if the replica lacks it. None: priorities are not set."""


class Admission(msgspec.Struct, frozen=True):
    """All admission rules of the server."""

    authorizer: Authorizer
    nodes: Lookup
    service_account: FindAccount | None = None
    """None turns the admission by service account off."""
    runtime_class: Find | None = None
    policies: PolicyObjects = PolicyObjects()
    quotas: QuotaAdmission | None = None
    claim_rights: bool = True
    """Parts of a claim's status require rights of their own."""

    def concerns(self, user: User, target: Target) -> bool:
        """Return True if admission checks or changes objects that this user creates."""
        row = target.resource
        return target.verb != "create" or row.full_name == "pods" or row.group in CHECKED or is_node(user)

    async def prepared(self, user: User, target: Target, obj: Object) -> None:
        """Complete a new object by others, before validation. Raises Forbidden.

        A pod gets what limit ranges, its service account, its PriorityClass and its RuntimeClass add.
        """
        row = target.resource
        if not isinstance(obj.get("metadata"), dict):
            return
        if target.resource.group == CERTIFICATES:
            set_requester(user, obj)
        wanted = _attributes("create", target, obj)
        if target.verb != "create":  # a PUT or an apply that finds nothing
            self.authorizer.check(user, wanted)
        if (row.group, row.plural, target.subresource) != ("", "pods", "") or not isinstance(obj.get("spec"), dict):
            return
        set_defaults(obj, self.policies.limit_ranges(target.namespace))
        if self.service_account is not None and not is_mirror(obj):
            self._reject(wanted, await admit_pod(obj, target.namespace, self.service_account))
        await self._set_priority(wanted, obj)
        if self.runtime_class is not None and concerns(obj):
            name = names_class(obj)
            self._reject(wanted, apply_class(obj, await self.runtime_class(name) if name else None))

    async def _set_priority(self, wanted: Attributes, pod: Object) -> None:
        if (find := self.policies.priority_class) is None:
            return
        name = class_name(pod)
        found = await find(name) if name else default_class(self.policies.priority_classes())
        self._reject(wanted, apply_priority(pod, found))

    def validates(self, target: Target) -> bool:
        """Return True if rules check new objects of this target after their validation."""
        name = target.resource.full_name
        if name == CLASSES or (name, "") in BOUNDED:
            return True
        return self.quotas is not None and self.quotas.concerns(target)

    async def validated(self, target: Target, obj: Object, *, dry_run: bool) -> None:
        """Check a valid new object, and charge the quotas of its namespace at last. Raises Forbidden, Conflict."""
        name = target.resource.full_name
        if (name, "") in BOUNDED and (ranges := self.policies.limit_ranges(target.namespace)):
            self._reject(_attributes("create", target, obj), limit_fault(name, obj, ranges))
        if name == CLASSES:
            fault = second_default(obj, self.policies.priority_classes(), creating=True)
            self._reject(_attributes("create", target, obj), fault)
        if self.quotas is not None and self.quotas.concerns(target):
            await self.quotas.charge(target, obj, dry_run=dry_run)

    def charge(self, target: Target, dry_run: bool) -> Charge | None:
        """Return what charges an update to the quotas of its namespace; None if they do not count it."""
        quotas = self.quotas
        if quotas is None or not quotas.counts_updates(target):
            return None
        return partial(quotas.charge, target, dry_run=dry_run)

    def created(self, user: User, target: Target, obj: Object) -> None:
        """Check a new object. Raises Forbidden."""
        if not isinstance(obj.get("metadata"), dict):
            return
        wanted = _attributes("create", target, obj)
        self._check(user, target, wanted, CREATE, obj, {})
        if wanted.full_resource == "pods" and not wanted.group and is_mirror(obj):
            self._reject(wanted, mirror_fault(obj))

    def mutation(self, user: User, target: Target, mutate: Mutation) -> Mutation:
        """Return `mutate` with a check of the change. The result also raises Forbidden."""
        mutate = self._bounded(target, mutate)
        if self.claim_rights and is_claim_status(target):
            mutate = _checked(mutate, partial(self._check_claim, user, target))
        if not is_node(user) and target.resource.group not in CHECKED:
            return mutate
        operation = OPERATIONS.get(target.verb, UPDATE)
        if operation != UPDATE:
            return self._before(user, target, operation, mutate)

        def check(new: Object, before: Object) -> None:
            self._check(user, target, _attributes("update", target, new), operation, new, before)

        return _checked(mutate, check)

    def _check_claim(self, user: User, target: Target, new: Object, old: Object) -> None:
        if causes := claim_status_causes(self.authorizer, user, target, new, old):
            raise invalid_object(target.resource.kind, target.resource.group, target.name, causes)

    def _bounded(self, target: Target, mutate: Mutation) -> Mutation:
        """Return `mutate` with the checks of limit ranges and of the only default PriorityClass."""
        name = target.resource.full_name
        if OPERATIONS.get(target.verb, UPDATE) != UPDATE:
            return mutate
        ranges = self.policies.limit_ranges(target.namespace) if (name, target.subresource) in BOUNDED_UPDATES else []
        if not ranges and name != CLASSES:
            return mutate

        def checked(old: Object) -> Object | None:
            bounds = [] if terminating(old) else ranges
            before = fresh_copy(old) if bounds else old
            new = mutate(old)
            if new is None:
                return None
            if bounds and name == "pods":
                new = _with_defaults(target, new, before, bounds)
            classes = self.policies.priority_classes() if name == CLASSES else []
            fault = limit_fault(name, new, bounds) or second_default(new, classes, creating=False)
            self._reject(_attributes("update", target, new), fault)
            return new

        return checked

    def _before(self, user: User, target: Target, operation: str, mutate: Mutation) -> Mutation:
        def checked(old: Object) -> Object | None:
            if is_node(user):
                self._check(user, target, _attributes(target.verb, target, old), operation, {}, old)
            return mutate(old)

        return checked

    def _check(self, user: User, target: Target, wanted: Attributes, operation: str, new: Object, old: Object) -> None:
        if is_node(user):
            write = NodeWrite(node_name(user), operation, wanted, new, old, self.nodes)
            self._reject(wanted, node_fault(write))
        if new:
            grant = replace(wanted, name=target.name)
            self._reject(wanted, EscalationCheck(self.authorizer).fault(user, grant, new, old))
            if wanted.group == CERTIFICATES:
                self._reject(wanted, certificate_fault(self.authorizer, user, target, new, old))

    def _reject(self, wanted: Attributes, fault: str) -> None:
        if fault:
            raise Forbidden(f'{full_name(wanted)} "{wanted.name}" is forbidden: {fault}', attributes_details(wanted))


def _with_defaults(target: Target, new: Object, old: Object, ranges: list[Object]) -> Object:
    """Return a resized pod with the defaults of limit ranges, which nobody owns. Raises Invalid if they do not fit."""
    filled = fresh_copy(new)
    set_defaults(filled, ranges)
    if filled == new:
        return new
    entries = new["metadata"].get("managedFields") or []
    return updated(target, filled, old, patching=True, owners=lambda obj, before, sent: entries)


def _attributes(verb: str, target: Target, obj: Object) -> Attributes:
    row = target.resource
    name = target.name or str(at(obj, "metadata", "name") or "")
    return Attributes(verb, "", row.group, row.plural, target.subresource, target.namespace, name)


def _checked(mutate: Mutation, check: Callable[[Object, Object], None]) -> Mutation:
    """Return `mutate` followed by a check of the new object against the old one."""

    def checked(old: Object) -> Object | None:
        before = fresh_copy(old)
        try:
            new = mutate(old)
        except Invalid as fault:  # privileges are checked first
            if fault.rejected is not None:
                check(fault.rejected, before)
            raise
        if new is not None:
            check(new, before)
        return new

    return checked
