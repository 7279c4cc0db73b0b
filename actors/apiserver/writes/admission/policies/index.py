"""Policies, bindings and webhooks by the kind of write that they may match, read again after they change.

Writes of a kind that nothing matches cost one look-up in a dictionary. Nothing is parsed before the first write.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from protocols.kinds.served.row import Served, Table
from protocols.kube.meta import Object

if TYPE_CHECKING:
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
    bindings: tuple["Binding", ...]
    row: Served
    """The version of the written resource that the policy covers."""


class WebhookHook(msgspec.Struct, frozen=True):
    """A webhook that may match a kind of write; `row` is the version of the resource that it gets."""

    webhook: "Webhook"
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


class PolicyIndex:
    """Hooks by kind of write, computed when first needed and dropped when a policy or a definition changes."""

    def __init__(self, replicas: Mapping[str, Replica], table: Table) -> None:
        self._replicas = {plural: replicas[f"{plural}.{GROUP}"] for plural in KINDS}
        self._table = table
        self._known: dict[tuple[Served, str, str], Hooks | None] = {}
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
        if not all(replica.filled for replica in self._replicas.values()):
            await asyncio.gather(*(replica.wait_filled() for replica in self._replicas.values()))
        some = row.group != GROUP and any(len(replica.objects) for replica in self._replicas.values())
        hooks = self._find(row, subresource, operation) if some else None
        if len(self._known) >= KNOWN:
            self._known.clear()
        self._known[row, subresource, operation] = hooks
        return hooks

    def _follower(self, plural: str) -> Callable[[Change], None]:
        def follow(change: Change) -> None:
            self._known.clear()
            self._parsed.pop((plural, change.key), None)

        return follow

    def _find(self, row: Served, subresource: str, operation: str) -> Hooks | None:
        rows = (row, *(other for other in self._table.rows if other.store == row.store and other is not row))
        where = rows, subresource, operation
        hooks = Hooks(
            mutating=tuple(self._policies("mutating", *where)),
            mutating_webhooks=tuple(self._webhooks("mutatingwebhookconfigurations", *where)),
            validating=tuple(self._policies("validating", *where)),
            validating_webhooks=tuple(self._webhooks("validatingwebhookconfigurations", *where)),
        )
        return hooks or None

    def _policies(self, kind: str, rows: tuple[Served, ...], subresource: str, operation: str) -> Iterator[PolicyHook]:
        from actors.apiserver.writes.admission.policies.validating import read_binding, read_policy

        bound: dict[str, list[Binding]] = {}
        for binding in self._read(f"{kind}admissionpolicybindings", read_binding):
            bound.setdefault(binding.policy, []).append(binding)
        if not bound:
            return
        for policy in self._read(f"{kind}admissionpolicies", read_policy):
            row = policy.match.row_of(rows, subresource, operation) if policy.name in bound else None
            if row is not None:
                yield PolicyHook(policy, tuple(bound[policy.name]), row)

    def _webhooks(
        self, plural: str, rows: tuple[Served, ...], subresource: str, operation: str
    ) -> Iterator[WebhookHook]:
        from actors.apiserver.writes.admission.policies.webhook import read_webhooks

        for webhooks in self._read(plural, read_webhooks):
            for webhook in webhooks:
                row = webhook.match.row_of(rows, subresource, operation)
                if row is not None:
                    yield WebhookHook(webhook, row)

    def _read(self, plural: str, read: Callable[[Object], Any]) -> Iterator[Any]:
        for stored in self._replicas[plural].objects.below(""):
            held = self._parsed.get((plural, stored.key))
            if held is None or held[0] != stored.rv:
                held = self._parsed[plural, stored.key] = stored.rv, read(stored.obj)
            yield held[1]
