"""Policies, bindings and webhooks by the kind of write that they may match, read again after they change.

Writes of a kind that nothing matches cost one look-up in a dictionary. Nothing is parsed before the first write. Long
configurations are searched in a thread, by one write at a time: the others find what it parsed.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actors.apiserver.api.errors import InternalError
from actors.apiserver.api.request.workers import LONG
from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from protocols.kinds.served.row import Served, Table
from protocols.kube.errors import SHAPE_ERRORS, KubeError
from protocols.kube.meta import Object

if TYPE_CHECKING:
    from actors.apiserver.writes.admission.policies.matching import KindMatch
    from actors.apiserver.writes.admission.policies.validating import Binding, Policy
    from actors.apiserver.writes.admission.policies.webhook import Webhook

GROUP = "admissionregistration.k8s.io"
KINDS = (
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
)  # fmt: skip
KNOWN = 4096
"""Kinds of writes whose hooks are retained: more than there are, unless definitions come and go."""


class PolicyHook(msgspec.Struct, frozen=True):
    """A policy with its bindings that may match a kind of write."""

    policy: "Policy"
    match: "KindMatch"
    bindings: tuple[tuple["Binding", "KindMatch | None"], ...]
    """Each with its own match, if it has one."""
    row: Served
    """The version of the written resource that the policy covers."""


class WebhookHook(msgspec.Struct, frozen=True):
    """A webhook that may match a kind of write; `row` is the version of the resource that it gets."""

    webhook: "Webhook"
    match: "KindMatch"
    row: Served


class Hooks(msgspec.Struct, frozen=True):
    """All that may match one kind of write, in the order of names."""

    mutating: tuple[PolicyHook, ...] = ()
    mutating_webhooks: tuple[WebhookHook, ...] = ()
    validating: tuple[PolicyHook, ...] = ()
    validating_webhooks: tuple[WebhookHook, ...] = ()

    @property
    def mutates(self) -> bool:
        return bool(self.mutating or self.mutating_webhooks)

    def __bool__(self) -> bool:
        return bool(self.mutates or self.validating or self.validating_webhooks)


_Kind = tuple[Served, str, str]
"""Resource, subresource and operation of a kind of write."""
_Held = Mapping[str, tuple[Stored, ...]]
"""All policies, bindings and webhooks at one time, by plural."""


class PolicyIndex:
    """Hooks by kind of write, computed when first needed and dropped when a policy or a definition changes."""

    def __init__(self, replicas: Mapping[str, Replica], table: Table) -> None:
        self._replicas = {plural: replicas[f"{plural}.{GROUP}"] for plural in KINDS}
        self._table = table
        self._known: dict[_Kind, Hooks | None] = {}
        self._changes = 0
        """Number of changes of policies and webhooks."""
        self._searching = asyncio.Lock()
        self._parsed: dict[tuple[str, str], tuple[int, Any]] = {}
        """By plural and name: the revision and what was read of it."""
        for plural, replica in self._replicas.items():
            replica.listen(self._follower(plural))

    async def hooks(self, row: Served, subresource: str, operation: str) -> Hooks | None:
        """Return what may match a write of this kind; None if nothing does."""
        try:
            return self._known[row, subresource, operation]
        except KeyError:
            pass
        some = row.group != GROUP and any(len(replica.objects) for replica in self._replicas.values())
        return await self._search((row, subresource, operation)) if some else self._know((row, subresource, operation))

    def _know(self, kind: _Kind, hooks: Hooks | None = None) -> Hooks | None:
        if len(self._known) >= KNOWN:
            self._known.clear()
        self._known[kind] = hooks
        return hooks

    async def _search(self, kind: _Kind) -> Hooks | None:
        async with self._searching:
            if kind in self._known:
                return self._known[kind]
            held = {plural: tuple(replica.objects.below("")) for plural, replica in self._replicas.items()}
            if sum(len(stored.raw) for objects in held.values() for stored in objects) <= LONG:
                return self._know(kind, self._find(held, *kind))
            changes = self._changes
            hooks = await asyncio.to_thread(self._find, held, *kind)
            if changes == self._changes:
                return self._know(kind, hooks)
            for plural, name in tuple(self._parsed):  # parsed after it was deleted
                if self._replicas[plural].objects.get(name) is None:
                    del self._parsed[plural, name]
            return hooks

    def _follower(self, plural: str) -> Callable[[Change], None]:
        def follow(change: Change) -> None:
            self._changes += 1
            self._known.clear()
            self._parsed.pop((plural, change.key), None)

        return follow

    def _find(self, held: _Held, row: Served, subresource: str, operation: str) -> Hooks | None:
        rows = (row, *_equivalents(row, subresource, self._table.rows))
        where = rows, subresource, operation
        hooks = Hooks(
            mutating=tuple(self._policies(held, "mutating", *where)),
            mutating_webhooks=tuple(self._webhooks(held, "mutatingwebhookconfigurations", *where)),
            validating=tuple(self._policies(held, "validating", *where)),
            validating_webhooks=tuple(self._webhooks(held, "validatingwebhookconfigurations", *where)),
        )
        return hooks or None

    def _policies(
        self, held: _Held, kind: str, rows: tuple[Served, ...], subresource: str, operation: str
    ) -> Iterator[PolicyHook]:
        from actors.apiserver.writes.admission.policies.validating import read_binding, read_policy

        bound: dict[str, list[Binding]] = {}
        for binding in self._read(held, f"{kind}admissionpolicybindings", read_binding):
            bound.setdefault(binding.policy, []).append(binding)
        for policy in self._read(held, f"{kind}admissionpolicies", read_policy) if bound else ():
            found = policy.match.find(rows, subresource, operation) if policy.name in bound else None
            if found is None:
                continue
            row, match = found
            bindings = tuple(_narrowed(bound[policy.name], rows, subresource, operation))
            if bindings:
                yield PolicyHook(policy, match, bindings, row)

    def _webhooks(
        self, held: _Held, plural: str, rows: tuple[Served, ...], subresource: str, operation: str
    ) -> Iterator[WebhookHook]:
        from actors.apiserver.writes.admission.policies.webhook import read_webhooks

        for webhooks in self._read(held, plural, read_webhooks):
            for webhook in webhooks:
                found = webhook.match.find(rows, subresource, operation)
                if found is not None:
                    row, match = found
                    yield WebhookHook(webhook, match, row)

    def _read(self, held: _Held, plural: str, read: Callable[[Object], Any]) -> Iterator[Any]:
        for stored in held[plural]:
            parsed = self._parsed.get((plural, stored.key))
            if parsed is None or parsed[0] != stored.rv:
                parsed = self._parsed[plural, stored.key] = stored.rv, _readable(plural, stored, read)
            yield parsed[1]


def _equivalents(row: Served, subresource: str, rows: Iterable[Served]) -> Iterator[Served]:
    """Yield the other versions of a resource that have the subresource."""
    for other in rows:
        if other.store == row.store and other is not row and (not subresource or other.subresource(subresource)):
            yield other


def _narrowed(
    bindings: Iterable["Binding"], rows: tuple[Served, ...], subresource: str, operation: str
) -> Iterator[tuple["Binding", "KindMatch | None"]]:
    for binding in bindings:
        if binding.match is None:
            yield binding, None
        elif (found := binding.match.find(rows, subresource, operation)) is not None:
            yield binding, found[1]


def _readable(plural: str, stored: Stored, read: Callable[[Object], Any]) -> Any:
    """Return what was read. Raises InternalError: nobody knows which writes an unreadable policy is about."""
    try:
        return read(stored.obj)
    except (KubeError, *SHAPE_ERRORS) as error:
        message = f'{plural}.{GROUP} "{stored.key}" cannot be read: {error!s:.200}; correct or delete it'
        raise InternalError(message) from None
