"""The RBAC policy: all roles and bindings, indexed by subject. Pure."""

from collections.abc import Iterator

import msgspec

from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.rbac.rules import (
    Binding,
    Decision,
    Role,
    Subject,
    read_binding,
    read_role,
    rule_allows,
)
from protocols.kinds.rbac.policy_rule import PolicyRule
from protocols.kube.meta import Object

Bindings = dict[Subject, dict[str, Binding]]


class HeldRule(msgspec.Struct, frozen=True):
    """A rule that a user holds, and the binding and role that grant it."""

    rule: PolicyRule
    binding: Binding
    subject: Subject

    def reason(self) -> str:
        binding = self.binding
        kind = "RoleBinding" if binding.namespace else "ClusterRoleBinding"
        name = f"{binding.name}/{binding.namespace}" if binding.namespace else binding.name
        whom = f'{self.subject.kind} "{self.subject.name}"'
        return f'RBAC: allowed by {kind} "{name}" of {binding.role_kind} "{binding.role_name}" to {whom}'


class Policy:
    """Roles and bindings by kind and storage key, with indexes that answer every query."""

    def __init__(self) -> None:
        self._roles: dict[str, Role] = {}
        self._cluster_roles: dict[str, Role] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_namespace: dict[str, Bindings] = {}
        """Bindings by subject and namespace; cluster role bindings have an empty namespace."""
        self._aggregated: dict[str, tuple[PolicyRule, ...]] = {}

    def put(self, kind: str, key: str, obj: Object) -> None:
        if kind in ("Role", "ClusterRole"):
            self.put_role(kind, key, read_role(obj))
        else:
            self.remove(kind, key)
            binding = self._bindings[kind, key] = read_binding(obj)
            for subject in binding.subjects:
                held = self._by_namespace.setdefault(binding.namespace, {})
                held.setdefault(subject, {})[binding.name] = binding

    def put_role(self, kind: str, key: str, role: Role) -> None:
        if kind == "Role":
            self._roles[key] = role
        else:
            self._cluster_roles[key] = role
            self._aggregated.clear()

    def remove(self, kind: str, key: str) -> None:
        if kind == "Role":
            self._roles.pop(key, None)
        elif kind == "ClusterRole":
            self._cluster_roles.pop(key, None)
            self._aggregated.clear()
        else:
            self._unbind(self._bindings.pop((kind, key), None))

    def _unbind(self, binding: Binding | None) -> None:
        if binding is None or not binding.subjects:  # one without subjects has no place below its namespace
            return
        held = self._by_namespace[binding.namespace]
        for subject in set(binding.subjects):
            names = held[subject]
            names.pop(binding.name)
            if not names:
                del held[subject]
        if not held:
            del self._by_namespace[binding.namespace]

    def decide(self, user: User, wanted: Attributes) -> Decision:
        namespace = wanted.namespace if wanted.resource else ""
        for grant in self.grants(user, namespace):
            if rule_allows(grant.rule, wanted):
                return Decision(True, grant.reason())
        return Decision(False)

    def grants(self, user: User, namespace: str) -> Iterator[HeldRule]:
        """Yield every rule of a user in a namespace, those of the whole cluster first."""
        subjects = [Subject("User", user.name), *(Subject("Group", group) for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            held = self._by_namespace.get(scope)
            for subject in subjects if held else ():
                for binding in tuple((held or {}).get(subject, {}).values()):  # threads ask, too
                    for rule in self.role_rules(binding.role_kind, binding.role_name, scope):
                        yield HeldRule(rule, binding, subject)

    def role_rules(self, kind: str, name: str, namespace: str = "") -> tuple[PolicyRule, ...]:
        """Return the rules of a role. A role that does not exist grants nothing."""
        if kind == "ClusterRole":
            return self.cluster_rules(name)
        role = self._roles.get(f"{namespace}/{name}") if kind == "Role" and namespace else None
        return role.rules if role is not None else ()

    def has_role(self, kind: str, name: str, namespace: str = "") -> bool:
        return name in self._cluster_roles if kind == "ClusterRole" else f"{namespace}/{name}" in self._roles

    def cluster_rules(self, name: str) -> tuple[PolicyRule, ...]:
        role = self._cluster_roles.get(name)
        if role is None:
            return ()
        if role.selectors is None:
            return role.rules
        if name not in self._aggregated:
            self._aggregated[name] = tuple(dict.fromkeys(self._gather(name, {name})))
        return self._aggregated[name]

    def _gather(self, name: str, seen: set[str]) -> Iterator[PolicyRule]:
        """Yield the rules of all roles that `name` selects, also through other aggregated roles. `seen` ends cycles."""
        role = self._cluster_roles[name]
        if role.selectors is None:
            yield from role.rules
            return
        for other, candidate in sorted(self._cluster_roles.items()):
            labels = dict(candidate.labels)
            if other not in seen and any(matches(labels) for matches in role.selectors):
                seen.add(other)
                yield from self._gather(other, seen)
