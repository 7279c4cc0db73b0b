"""Tells DeviceTaintRules, in their status, what became of the pods they drive off."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from actors.controllers.taints.causes import Causes, Deadline, selects
from actors.controllers.taints.rule_status import CONDITION, Figures, condition_for, due
from actors.controllers.taints.users import Users, runs
from protocols.dra.types import NO_EFFECT, Rule
from protocols.kube.client import ApiClient
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object
from protocols.kube.resources import DEVICETAINTRULES
from protocols.kube.times import now


class RuleTeller:
    def __init__(self, client: ApiClient, users: Users, causes: Causes, pending: Mapping[str, Deadline]) -> None:
        self._client, self._users, self._causes, self._pending = client, users, causes, pending
        self.known: dict[str, tuple[Rule, Object]] = {}
        """By name: as read, and as the API has it."""
        self._evictions: Counter[str] = Counter()
        """By rule uid, since the start."""
        self._written: dict[str, float] = {}

    def forget(self, name: str) -> None:
        found = self.known.pop(name, None)
        if found is not None:
            self._written.pop(found[0].uid, None)
            self._evictions.pop(found[0].uid, None)

    def evicted(self, rules: Iterable[str]) -> None:
        for name in rules:
            if name in self.known:
                self._evictions[self.known[name][0].uid] += 1

    async def tell(self, name: str) -> float:
        """Seconds after which to come again; 0 = only when something changes. Raises ApiError, ApiAway."""
        if name not in self.known:
            return 0.0
        rule, known = self.known[name]
        wanted = condition_for(rule, self._figures(rule), known, now())
        wait = due(rule, wanted, known, self._written.get(rule.uid, float("-inf")), time.monotonic())
        if wait is None or wait > 0:
            return wait or 0.0
        others = [each for each in (known.get("status") or {}).get("conditions") or () if each.get("type") != CONDITION]
        body = {"metadata": {"uid": rule.uid}, "status": {"conditions": [*others, wanted]}}
        self._written[rule.uid] = time.monotonic()
        try:
            await self._client.patch(DEVICETAINTRULES, name, "", body, subresource="status")
        except ApiError as error:
            if error.code not in (404, 409):
                raise
        return 0.0

    def _figures(self, rule: Rule) -> Figures:
        if rule.taint.effect != NO_EFFECT:
            pods = [key for key, deadline in self._pending.items() if rule.name in deadline.rules]
            return Figures(len(pods), _namespaces(pods), self._evictions[rule.uid])
        touched = [keys for device, keys in self._users.devices() if selects(rule, device)]
        claims = {key: self._users.claims[key] for keys in touched for key in keys if key in self._users.claims}
        driven = [key for key, claim in claims.items() if self._causes.if_executed(rule, claim)]
        would = [key for key in self._users.of_claims(driven) if runs(self._users.pods.get(key) or {})]
        return Figures(len(would), _namespaces(would), 0, self._causes.published(rule), len(touched))


def _namespaces(pods: Iterable[str]) -> int:
    return len({key.partition("/")[0] for key in pods})
