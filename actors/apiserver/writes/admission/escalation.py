"""Rights beside that to the verb: to create by a PUT or an apply, and to grant permissions.

As upstream's, the second checks every change of a role or binding except those of the garbage collector, not only
changes of `rules` and `subjects`: labels decide which roles an aggregated role collects.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from actors.apiserver.api.errors import NotFound
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import EVERYTHING, FRESH_SECONDS, MASTERS
from actors.apiserver.writes.admission.rule import EVERY_KIND, Rule, Step
from actors.apiserver.writes.change import CREATE, UPDATE, Change
from protocols.errors import NodeplaneError
from protocols.kinds.rbac.cover import uncovered
from protocols.kinds.rbac.policy_rule import GROUP, PolicyRule, quoted, read_rules
from protocols.kube.meta import Object
from protocols.kube.objects import items, text

ROLES = ("roles", "clusterroles")
BINDINGS = ("rolebindings", "clusterrolebindings")
COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
"""Metadata that the garbage collector or the server changes and that grants nothing."""

AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


class CreationRight(Rule):
    """Comes before rules that look something up for the author."""

    step, covers = Step.COMPLETE, {EVERY_KIND: (CREATE,)}

    def concerns(self, change: Change) -> bool:
        return change.target.verb != "create"

    def apply(self, change: Change) -> None:
        self.given.authorizer.check(change.author, change.attributes)


class NewestRoles(Rule):
    """Bring roles and bindings up to date: another process may have acknowledged a role that the author binds now."""

    step, covers = Step.COMPLETE, {f"*.{GROUP}": (CREATE, UPDATE)}

    async def apply(self, change: Change) -> None:
        if MASTERS not in change.author.groups:
            with suppress(NodeplaneError, TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    await self.given.newest_roles()


class Escalation(Rule):
    """Check that authors grant only permissions that they have themselves."""

    step, covers = Step.CHECK_AUTHOR, {f"*.{GROUP}": (CREATE, UPDATE)}

    def apply(self, change: Change) -> None:
        # The name in the path is empty for a POST: permission to escalate some names does not include creating them.
        wanted = replace(change.attributes, name=change.target.name)
        change.reject(self._fault(change.author, wanted, change.sent, change.old or {}))

    def _fault(self, user: User, wanted: Attributes, new: Object, old: Object) -> str:
        """Return why this write would grant permissions that the user lacks. Raises NotFound for a missing role."""
        if _granting(new) == _granting(old):
            return ""
        if wanted.resource in BINDINGS:
            return self._binding_fault(user, wanted, new)
        return self._role_fault(user, wanted, new, old) if wanted.resource in ROLES else ""

    def _role_fault(self, user: User, wanted: Attributes, new: Object, old: Object) -> str:
        if self.given.authorizer.allows(user, replace(wanted, verb="escalate")):
            return ""
        if fault := self._excess(user, wanted.namespace, read_rules(new)):
            return fault
        aggregates = any(items(role, "aggregationRule", "clusterRoleSelectors") for role in (new, old))
        return AGGREGATION if aggregates and self._excess(user, "", EVERYTHING) else ""

    def _binding_fault(self, user: User, wanted: Attributes, new: Object) -> str:
        kind, name = text(new, "roleRef", "kind"), text(new, "roleRef", "name")
        namespace = "" if kind == "ClusterRole" else wanted.namespace
        role = Attributes("bind", wanted.path, GROUP, f"{kind.lower()}s", "", wanted.namespace, name)
        if self.given.authorizer.allows(user, role):
            return ""
        policy = self.given.authorizer.policy()
        if policy is None or not policy.has_role(kind, name, namespace):
            message = f'{kind.lower()}s.{GROUP} "{name}" not found'
            raise NotFound(message, {"name": name, "group": GROUP, "kind": f"{kind.lower()}s"})
        return self._excess(user, wanted.namespace, policy.role_rules(kind, name, namespace))

    def _excess(self, user: User, namespace: str, granted: tuple[PolicyRule, ...]) -> str:
        missing = uncovered(self.given.authorizer.rules(user, namespace), granted)
        if not missing:
            return ""
        listed = "\n".join(_listed(missing))
        who = f'user "{user.name}" (groups={quoted(user.groups)})'
        return f"{who} is attempting to grant RBAC permissions not currently held:\n{listed}"


def _listed(missing: Iterable[PolicyRule]) -> list[str]:
    """Return single permissions as texts, with the verbs of each resource together."""
    verbs: dict[PolicyRule, list[str]] = {}
    for rule in missing:
        verbs.setdefault(replace(rule, verbs=rule.verbs if rule.urls else ()), []).extend(rule.verbs)
    return sorted(replace(rule, verbs=tuple(together)).compact() for rule, together in verbs.items())


def _granting(obj: Object) -> Object:
    """Return the object without metadata that only the garbage collector changes."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in COLLECTED}
    return {**obj, "metadata": metadata}
