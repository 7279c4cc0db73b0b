"""Admission: the one list of rules for authorized writes, by their steps.

The order is upstream's: what completes an object, what checks its author, policies and webhooks that change it, what
checks it, and quotas at last. A rule of one's own is a class in a file of this folder and a row here. The rules of
this file only call what a server was given: quotas, policies and webhooks.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

from actors.apiserver.api.request.workers import offload
from actors.apiserver.writes.admission.certificates import CertificateRequester, CertificateRights
from actors.apiserver.writes.admission.claims import ClaimRights
from actors.apiserver.writes.admission.escalation import CreationRight, Escalation, NewestRoles
from actors.apiserver.writes.admission.limits import LimitDefaults, Limits
from actors.apiserver.writes.admission.nodes import NodeRestriction
from actors.apiserver.writes.admission.pods import MirrorPods, RuntimeClasses, TopologyLabels
from actors.apiserver.writes.admission.priority import OneDefaultClass, Priority
from actors.apiserver.writes.admission.rule import EVERY_KIND, Dependencies, Rule, Step
from actors.apiserver.writes.admission.service_accounts import ServiceAccounts
from actors.apiserver.writes.admission.volume_claims import ClaimGrowth, DefaultStorageClass
from actors.apiserver.writes.change import CONNECT, CREATE, DELETE, UPDATE, Change
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object
from protocols.quota.amounts import Amounts
from protocols.quota.evaluators import evaluator_of


class _HookRule(Rule):
    """Policies and webhooks of users act by the Session of a change, if it has one."""

    step, covers = Step.CHECK_VALID, {EVERY_KIND: (CREATE, UPDATE, DELETE, CONNECT)}

    def concerns(self, change: Change) -> bool:
        return change.session is not None


class Mutating(_HookRule):
    """MutatingAdmissionPolicies and mutating webhooks: together, as each may ask to be called again after others."""

    step, covers = Step.MUTATE, {EVERY_KIND: (CREATE, UPDATE, DELETE)}

    async def apply(self, change: Change) -> None:
        await change.session.mutate()


class ValidatingPolicies(_HookRule):
    """Check a write by ValidatingAdmissionPolicies."""

    async def apply(self, change: Change) -> None:
        await change.session.check_policies()


class ValidatingWebhooks(_HookRule):
    """Check a write by webhooks, all called at once: nothing changes the object after them."""

    async def apply(self, change: Change) -> None:
        await change.session.check_webhooks()


class Quotas(Rule):
    """Charge the quotas of the object's namespace; the last rule, since nothing takes a charge back."""

    step, covers = Step.CHARGE, {EVERY_KIND: (CREATE, UPDATE)}

    def concerns(self, change: Change) -> bool:
        quotas, target = self.given.quotas, change.target
        if quotas is None:
            return False
        return quotas.concerns(target) if change.operation == CREATE else quotas.counts_updates(target)

    async def apply(self, change: Change) -> None:
        assert self.given.quotas is not None
        written = change.old, change.sent
        if change.charged is None or _growth(change, written) != _growth(change, change.charged):
            await self.given.quotas.charge(change.target, change.sent, change.old, dry_run=change.options.dry_run)
            change.charged = written  # it may lose to a write that changes nothing of its growth


def _growth(change: Change, written: tuple[Object | None, Object]) -> list[Amounts | None]:
    """Return the usage before and after a write."""
    usage = evaluator_of(change.target.resource.full_name).usage
    return [None if obj is None else usage(obj) for obj in written]


RULES: tuple[type[Rule], ...] = (
    CreationRight,
    NewestRoles,
    CertificateRequester,
    LimitDefaults,
    ServiceAccounts,
    Priority,
    RuntimeClasses,
    TopologyLabels,
    DefaultStorageClass,
    ClaimRights,
    NodeRestriction,
    Escalation,
    CertificateRights,
    MirrorPods,
    Mutating,
    Limits,
    OneDefaultClass,
    ClaimGrowth,
    ValidatingPolicies,
    ValidatingWebhooks,
    Quotas,
)
"""All rules. Within a step they act in this order."""
KNOWN = 4096
"""Kinds of writes whose rules are retained: more than there are, unless definitions come and go."""


class Admission:
    """The rules of this process; those that cover a kind of write are found once."""

    def __init__(self, given: Dependencies) -> None:
        self.given = given
        self._rules = tuple(rule(given) for rule in RULES)
        self._covering = lru_cache(maxsize=KNOWN)(self._find)

    async def begin(self, change: Change) -> "Admitting":
        """Find the rules that concern a write, and the policies and webhooks of users. Raises TooManyRequests."""
        await self.given.known()
        if self.given.policies is not None:
            change.session = await self.given.policies.begin(change)
        return self.rules(change)

    def rules(self, change: Change) -> "Admitting":
        """Return the rules that concern a write."""
        target = change.target
        covering = self._covering(target.resource, target.subresource, change.operation)
        return Admitting([rule for rule in covering if rule.concerns(change)])

    async def review(self, change: Change) -> Sequence[str]:
        """Complete and check the body of a subresource or the options of a connection. Return warnings.

        Raises StatusError.
        """
        rules = await self.begin(change)
        await rules.run(Step.COMPLETE, change)
        if change.session is not None:
            await change.session.ask_mutating_webhooks()
        await rules.run(Step.CHECK_VALID, change)
        return change.warnings

    def _find(self, row: Served, subresource: str, operation: str) -> tuple[Rule, ...]:
        return tuple(rule for rule in self._rules if _covers(rule, row, subresource, operation))


class Admitting:
    """The rules of one write."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._steps: list[list[Rule]] = [[] for _ in Step]
        for rule in rules:
            self._steps[rule.step].append(rule)

    async def run(self, step: Step, change: Change) -> None:
        """Apply the rules of a step. Raises StatusError."""
        for rule in self._steps[step]:
            waits = rule.apply(change)
            if waits is not None:
                await waits

    async def check_author(self, change: Change, size: int) -> None:
        """Apply the rules of CHECK_AUTHOR, in a thread if `size` bytes are many. Raises StatusError."""
        if rules := self._steps[Step.CHECK_AUTHOR]:
            await offload(size, partial(_apply, rules, change))


def _apply(rules: list[Rule], change: Change) -> None:
    for rule in rules:
        rule.apply(change)


def _covers(rule: Rule, row: Served, subresource: str, operation: str) -> bool:
    name = f"{row.full_name}/{subresource}" if subresource else row.full_name
    return any(operation in rule.covers.get(kind, ()) for kind in (name, f"*.{row.group}", EVERY_KIND))
