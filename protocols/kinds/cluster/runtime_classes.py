"""RuntimeClass. Admission applies it to pods."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.selectors import toleration
from protocols.kinds.check.table import Causes, Ordered, each, needed, texts
from protocols.kinds.check.values import labels
from protocols.kinds.pods.spec.resources import resource_causes
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import LABEL, LABEL_LIMIT, LABEL_TEXT


def _handler_faults(handler: str) -> list[str]:
    return [] if len(handler) <= LABEL_LIMIT and LABEL.fullmatch(handler) else [LABEL_TEXT]


def _overhead(path: str, overhead: Object, causes: Causes) -> None:
    """Check the overhead as the limits of a container: it is copied into pods. Upstream's paths say so, too."""
    causes += resource_causes(path, {"resources": {"limits": overhead.get("podFixed")}})


def _whole(value: Object) -> str:
    return repr(sorted(value.items()))


class _RuntimeClassStrategy(Strategy):
    rules = Ordered(
        "handler",
        handler=needed(texts(_handler_faults)),
        scheduling=Ordered(nodeSelector=labels, tolerations=each(toleration, key=_whole)),
        overhead=_overhead,
    )
    immutable = ("handler",)


RUNTIMES = Served(
    **asdict(kinds.RUNTIMECLASSES),
    strategy=_RuntimeClassStrategy(),
    versioned_update=True,
    columns=(NAME, Column("Handler", cell("handler")), AGE),
)
