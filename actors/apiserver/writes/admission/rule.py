"""Admission rules: their base class, and what they may ask."""

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import ClassVar

import msgspec

from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.authorization.node_rules import Lookup
from actors.apiserver.writes.admission.policies.admission import PolicyAdmission
from actors.apiserver.writes.admission.policies.index import KINDS
from actors.apiserver.writes.admission.quota import QuotaAdmission
from actors.apiserver.writes.change import CREATE, Change
from protocols.kube.meta import Object

Find = Callable[[str], Awaitable[Object | None]]
"""Return an object by name, from the store if the replica lacks it; None if there is none."""
FindAccount = Callable[[str, str], Awaitable[Object | None]]
"""Return a service account by namespace and name; None if there is none."""
EVERY_KIND = "*"
NEEDS = ("limitranges", "priorityclasses", "resourcequotas", "storageclasses", *KINDS)
"""Resources whose absence allows a write: nothing is admitted before all of them are known."""


async def _known() -> None:
    pass


class Step(IntEnum):
    """Steps of a write to which rules belong, in their order. `writes/path/steps.py` has their contracts."""

    COMPLETE, CHECK_AUTHOR, MUTATE, CHECK_VALID, CHARGE = range(5)


class Dependencies(msgspec.Struct, frozen=True):
    """The sources that rules may ask: the authorizer, and objects of the cluster. Tests give what their rules need."""

    authorizer: Authorizer
    nodes: Lookup
    service_account: FindAccount | None = None
    """None turns the admission by service account off."""
    runtime_class: Find | None = None
    limit_ranges: Callable[[str], list[Object]] = lambda namespace: []
    """Return the LimitRanges of a namespace."""
    priority_classes: Callable[[], list[Object]] = list
    storage_classes: Callable[[], list[Object]] = list
    priority_class: Find | None = None
    """None: priorities are not set."""
    quotas: QuotaAdmission | None = None
    policies: PolicyAdmission | None = None
    claim_rights: bool = True
    """Parts of a claim's status require rights of their own."""
    newest_roles: Callable[[], Awaitable[object]] = _known
    """Bring the replicas of roles and bindings up to date with the store. Raises NodeplaneError."""
    known: Callable[[], Awaitable[None]] = _known
    """Wait until NEEDS are known, as they are soon after the start. Raises TooManyRequests."""


class Rule:
    """One admission rule: a row of RULES in `admission.py`."""

    step: ClassVar[Step]
    covers: ClassVar[Mapping[str, tuple[str, ...]]]
    """Operations by kind: `pods`, `pods/resize`, `*.GROUP` with its subresources, or EVERY_KIND."""

    def __init__(self, given: Dependencies) -> None:
        self.given = given

    def concerns(self, change: Change) -> bool:
        """Return False if the rule has nothing to say about a write of this author, before its objects are known."""
        return True

    def apply(self, change: Change) -> Awaitable[None] | None:
        """Check the change, or complete `change.new`. Raises StatusError.

        It may be `async` to wait for others, except in CHECK_AUTHOR, which is computed in a thread for large objects.
        """
        raise NotImplementedError


class PodRule(Rule):
    """A rule that completes new pods."""

    step, covers = Step.COMPLETE, {"pods": (CREATE,)}

    async def apply(self, change: Change) -> None:
        if isinstance(change.sent.get("spec"), dict):
            await self.complete(change, change.sent)

    async def complete(self, change: Change, pod: Object) -> None:
        """Complete a pod that has a spec. Raises Forbidden."""
        raise NotImplementedError
