"""RuntimeClass. Admission applies it to pods."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.check.selectors import toleration
from protocols.kinds.check.table import causes_of, each
from protocols.kinds.check.values import labels
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import LABEL, LABEL_TEXT
from protocols.kube.objects import at, items
from protocols.kube.quantity import is_quantity, parse_quantity

LABEL_MOST = 63
NOT_NEGATIVE = "must be a quantity greater than or equal to 0"


class RuntimeClassStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        handler = obj.get("handler")
        if not handler:
            return [required("handler"), *_part_causes(obj)]
        good = isinstance(handler, str) and len(handler) <= LABEL_MOST and LABEL.fullmatch(handler)
        return [*([] if good else [invalid("handler", handler, LABEL_TEXT)]), *_part_causes(obj)]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        same = new.get("handler") == old.get("handler")
        changed = [] if same else [invalid("handler", new.get("handler"), "field is immutable")]
        return [*changed, *_part_causes(new)]


def _part_causes(obj: Object) -> list[Cause]:
    causes = causes_of(labels, "scheduling.nodeSelector", at(obj, "scheduling", "nodeSelector") or {})
    causes += causes_of(each(toleration), "scheduling.tolerations", items(obj, "scheduling", "tolerations"))
    return causes + _overhead_causes(obj)


def _overhead_causes(obj: Object) -> list[Cause]:
    """Validate the overhead: it is copied into pods, so the same rules apply."""
    fixed = at(obj, "overhead", "podFixed")
    given = fixed if isinstance(fixed, dict) else {}
    wrong = {name: value for name, value in given.items() if not is_quantity(str(value)) or _negative(value)}
    return [invalid(f"overhead.podFixed[{name}]", value, NOT_NEGATIVE) for name, value in wrong.items()]


def _negative(value: object) -> bool:
    return parse_quantity(str(value)).nanos < 0


RUNTIMES = Served(
    **asdict(kinds.RUNTIMECLASSES),
    strategy=RuntimeClassStrategy(),
    versioned_update=True,
    columns=(NAME, Column("Handler", cell("handler")), AGE),
)
