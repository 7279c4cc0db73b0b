"""PodDisruptionBudgets. Messages equal upstream's.

The disruption controller keeps the status; the eviction subresource of pods decrements `disruptionsAllowed`.
"""

import re
from typing import Any

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid, unsupported
from protocols.kinds.check.metadata import conditions
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, Struct, at_least, causes_of
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

BOTH = "minAvailable and maxUnavailable cannot be both set"
NEGATIVE = "must be greater than or equal to 0"
OVER_100 = "must not be greater than 100%"
PERCENT = re.compile(r"[0-9]+%", re.ASCII)
PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
UNHEALTHY = ("AlwaysAllow", "IfHealthyBudget")
LONGEST_PERCENT = 8
"""Characters of a percentage that may be at most 100, leading zeros included."""


def _share(path: str, value: Any, causes: Causes) -> None:
    """Check a number of pods or a percentage of them."""
    if isinstance(value, int):
        if value < 0:
            causes.append(invalid(path, value, NEGATIVE))
    elif not PERCENT.fullmatch(value):
        causes.append(invalid(path, value, PERCENT_TEXT))
    elif len(value) > LONGEST_PERCENT or int(value[:-1]) > 100:
        causes.append(invalid(path, value, OVER_100))


def _policy(path: str, value: str, causes: Causes) -> None:
    if value not in UNHEALTHY:
        causes.append(unsupported(path, value, UNHEALTHY))


SPEC = Struct(minAvailable=_share, maxUnavailable=_share, selector=label_selector, unhealthyPodEvictionPolicy=_policy)
COUNTS = Struct(
    disruptionsAllowed=at_least(0, NEGATIVE),
    currentHealthy=at_least(0, NEGATIVE),
    desiredHealthy=at_least(0, NEGATIVE),
    expectedPods=at_least(0, NEGATIVE),
)


class _BudgetStrategy(Strategy):
    has_status = True
    has_generation = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        both = spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None
        return [*([invalid("spec", spec, BOTH)] if both else []), *causes_of(SPEC, "spec", spec)]

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        causes = causes_of(conditions, "status.conditions", items(new, "status", "conditions"))
        return causes + causes_of(COUNTS, "status", new.get("status") or {})


def _limit(title: str, name: str) -> Column:
    def shown(obj: Object) -> str:
        value = at(obj, "spec", name)
        return "N/A" if value is None else str(value)

    return Column(title, shown)


BUDGETS = Served(
    **asdict(kinds.PODDISRUPTIONBUDGETS),
    versioned_update=True,
    strategy=_BudgetStrategy(),
    columns=(
        NAME,
        _limit("Min Available", "minAvailable"),
        _limit("Max Unavailable", "maxUnavailable"),
        Column("Allowed Disruptions", lambda obj: at(obj, "status", "disruptionsAllowed") or 0, type="integer"),
        AGE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "PodDisruptionBudget", "policy", "v1"),),
)
