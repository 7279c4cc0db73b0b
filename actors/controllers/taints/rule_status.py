"""Write the EvictionInProgress condition of DeviceTaintRules, as upstream 1.36 does.

The functions at the top are pure; RuleStatusWriter counts pods and patches the API object.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from actors.controllers.taints.deadlines import Deadline, EvictionDeadlines, selects
from actors.controllers.taints.device_users import DeviceUsers, runs
from protocols.dra.types import TaintRule
from protocols.kinds import views
from protocols.kinds.table import DEVICETAINTRULES
from protocols.kube.errors import suppress_status
from protocols.kube.meta import condition
from protocols.kube.taints import NO_EFFECT, NO_EXECUTE
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient

CONDITION = "EvictionInProgress"
EVERY_S = 10.0
"""Shortest interval between two writes to one rule while pods are evicted."""


class Figures(msgspec.Struct, frozen=True):
    """Counts for the condition's message: what a rule does or, with effect None, would do."""

    pending: int = 0
    namespaces: int = 0
    evicted: int = 0
    published: int = 0
    allocated: int = 0


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def condition_for(rule: TaintRule, figures: Figures, known: views.DeviceTaintRule, stamp: str) -> views.Condition:
    """Return the condition; `known` is the rule as the API server has it."""
    reason, status, message = _reason_status_message(rule.taint.effect, figures)
    before = condition(known, CONDITION) or {}
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": rule.generation,
        "lastTransitionTime": since or stamp,
    }


def _reason_status_message(effect: str, figures: Figures) -> tuple[str, str, str]:
    if effect == NO_EFFECT:
        return "NoEffect", "False", _dry_run(figures)
    if effect != NO_EXECUTE:
        return "OtherEffect", "False", "Eviction only happens for the NoExecute effect."
    if figures.pending:
        need = "need" if figures.pending > 1 else "needs"
        different = "different namespaces" if figures.namespaces > 1 else "namespace"
        message = f"{_counted(figures.pending, 'pod')} {need} to be evicted in {figures.namespaces} {different}."
        return "PodsPendingEviction", "True", message
    if figures.evicted:
        return "Completed", "False", f"{_counted(figures.evicted, 'pod')} evicted since starting the controller."
    return "NotStarted", "False", ""


def _dry_run(figures: Figures) -> str:
    namespaces = _counted(figures.namespaces, "namespace")
    return (
        f"{_counted(figures.published, 'published device')} selected."
        f" {_counted(figures.allocated, 'allocated device')} selected."
        f" {_counted(figures.pending, 'pod')} would be evicted in {namespaces} if the effect was NoExecute."
        " This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )


PARTS: tuple[Literal["status", "reason", "message"], ...] = ("status", "reason", "message")


def due(
    rule: TaintRule, wanted: views.Condition, known: views.DeviceTaintRule, last: float, now: float
) -> float | None:
    """Return the seconds until the condition must be written; None if it need not be.

    It is written at once after a change of the rule's spec, otherwise at most once per EVERY_S.
    """
    before = condition(known, CONDITION) or {}
    if before.get("observedGeneration") != rule.generation:
        return 0.0
    same = all(before.get(part) == wanted[part] for part in PARTS)
    if same or rule.taint.effect == NO_EFFECT:
        return None
    return max(0.0, last + EVERY_S - now)


class RuleStatusWriter:
    """Writes the conditions of all rules; one that was written waits EVERY_S for the next write."""

    def __init__(
        self, client: ApiClient, users: DeviceUsers, deadlines: EvictionDeadlines, pending: Mapping[str, Deadline]
    ) -> None:
        self._client, self._users, self._deadlines, self._pending = client, users, deadlines, pending
        self.known: dict[str, tuple[TaintRule, views.DeviceTaintRule]] = {}
        """Rules by name: decoded, and as the API server has them."""
        self._evictions: Counter[str] = Counter()
        """Evicted pods by rule uid, since this process started."""
        self._written: dict[str, float] = {}

    def forget(self, name: str) -> None:
        entry = self.known.pop(name, None)
        if entry is not None:
            self._written.pop(entry[0].uid, None)
            self._evictions.pop(entry[0].uid, None)

    def evicted(self, rules: Iterable[str]) -> None:
        for name in rules:
            if name in self.known:
                self._evictions[self.known[name][0].uid] += 1

    async def write_if_due(self, name: str) -> float:
        """Write the condition if due; return the seconds until the next check, 0 for none.

        Raises:
            ApiError, ApiAway: The write failed and should be retried.
        """
        if name not in self.known:
            return 0.0
        rule, known = self.known[name]
        wanted = condition_for(rule, self._figures(rule), known, now())
        wait = due(rule, wanted, known, self._written.get(rule.uid, float("-inf")), time.monotonic())
        if wait is None or wait > 0:
            return wait or 0.0
        others = [
            other for other in (known.get("status") or {}).get("conditions") or () if other.get("type") != CONDITION
        ]
        body = {"metadata": {"uid": rule.uid}, "status": {"conditions": [*others, wanted]}}
        self._written[rule.uid] = time.monotonic()
        with suppress_status(404, 409):
            await self._client.patch(DEVICETAINTRULES, name, "", body, subresource="status")
        return 0.0

    def _figures(self, rule: TaintRule) -> Figures:
        if rule.taint.effect != NO_EFFECT:
            pods = [key for key, deadline in self._pending.items() if rule.name in deadline.rules]
            return Figures(len(pods), _namespaces(pods), self._evictions[rule.uid])
        touched = [keys for device, keys in self._users.devices() if selects(rule, device)]
        claims = {key: self._users.claims[key] for keys in touched for key in keys if key in self._users.claims}
        driven = [key for key, claim in claims.items() if self._deadlines.if_executed(rule, claim)]
        would = [key for key in self._users.of_claims(driven) if runs(self._users.pods.get(key) or {})]
        return Figures(len(would), _namespaces(would), 0, self._deadlines.published(rule), len(touched))


def _namespaces(pods: Iterable[str]) -> int:
    return len({key.partition("/")[0] for key in pods})
