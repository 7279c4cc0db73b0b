"""PodDisruptionBudgets. Messages equal upstream's.

The disruption controller keeps the status; the eviction subresource of pods decrements `disruptionsAllowed`.
"""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import invalid
from protocols.kinds.check.metadata import conditions
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, Struct, at_least, one_of, together
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.workloads.rules import int_or_percent, up_to_all
from protocols.kube.meta import Object
from protocols.kube.objects import at

BOTH = "minAvailable and maxUnavailable cannot be both set"
_share = together(int_or_percent, up_to_all)


def _one_share(path: str, spec: Object, causes: Causes) -> None:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        causes.append(invalid(path, spec, BOTH))


COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class _BudgetStrategy(Strategy):
    has_status = True
    has_generation = True
    rules = Struct(
        spec=Struct(
            also=_one_share,
            minAvailable=_share,
            maxUnavailable=_share,
            selector=label_selector,
            unhealthyPodEvictionPolicy=one_of("AlwaysAllow", "IfHealthyBudget", empty=True),
        )
    )
    status_rules = Struct(status=Struct(conditions=conditions, fields=dict.fromkeys(COUNTS, at_least(0))))

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = dict.fromkeys(COUNTS, 0)


def _limit(title: str, name: str) -> Column:
    def shown(obj: Object) -> str:
        value = at(obj, "spec", name)
        return "N/A" if value is None else str(value)

    return Column(title, shown)


BUDGETS = Served(
    **asdict(kinds.PODDISRUPTIONBUDGETS),
    versioned_update=True,
    free_names=True,
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
