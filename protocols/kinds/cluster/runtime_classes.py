"""RuntimeClass. Admission applies it to pods."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import invalid
from protocols.kinds.check.selectors import toleration
from protocols.kinds.check.table import Causes, Ordered, each, needed, texts
from protocols.kinds.check.values import labels
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import LABEL, LABEL_LIMIT, LABEL_TEXT
from protocols.kube.quantity import is_quantity, parse_quantity

NOT_NEGATIVE = "must be a quantity greater than or equal to 0"


def _handler_faults(handler: str) -> list[str]:
    return [] if len(handler) <= LABEL_LIMIT and LABEL.fullmatch(handler) else [LABEL_TEXT]


def _overhead(path: str, amounts: Object, causes: Causes) -> None:
    """Check the overhead: it is copied into pods, so the same rules apply."""
    for name, value in amounts.items():
        if not is_quantity(str(value)) or parse_quantity(str(value)).nanos < 0:
            causes.append(invalid(f"{path}[{name}]", value, NOT_NEGATIVE))


class _RuntimeClassStrategy(Strategy):
    rules = Ordered(
        "handler",
        handler=needed(texts(_handler_faults)),
        scheduling=Ordered(nodeSelector=labels, tolerations=each(toleration)),
        overhead=Ordered(podFixed=_overhead),
    )
    immutable = ("handler",)


RUNTIMES = Served(
    **asdict(kinds.RUNTIMECLASSES),
    strategy=_RuntimeClassStrategy(),
    versioned_update=True,
    columns=(NAME, Column("Handler", cell("handler")), AGE),
)
