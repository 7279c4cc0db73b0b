"""PriorityClass and RuntimeClass. Admission applies a RuntimeClass to pods."""

from msgspec.structs import asdict

from actors.apiserver.api.causes import Cause, forbidden, invalid, required, unsupported
from actors.apiserver.api.objects import at, items
from actors.apiserver.api.resource import Column, Served
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME, cell
from actors.apiserver.resources.validation.selectors import toleration
from actors.apiserver.resources.validation.table import causes_of, changed_causes, each
from actors.apiserver.resources.validation.values import labels
from protocols.kinds import table as kinds
from protocols.kube.meta import Object
from protocols.kube.names import LABEL, LABEL_TEXT
from protocols.kube.quantity import is_quantity, parse_quantity

PREEMPTION = ("PreemptLowerPriority", "Never")
HIGHEST = 1_000_000_000
SYSTEM_DESCRIPTIONS = {
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but can be moved to "
    "another node if necessary.",
}
SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""Values of the classes that exist from the start."""
RESERVED = "priority class names with 'system-' prefix are reserved for system use only."
LABEL_MOST = 63
NOT_NEGATIVE = "must be a quantity greater than or equal to 0"


class PriorityStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", PREEMPTION[0])
        obj["value"] = obj.get("value") or 0

    def validate_create(self, obj: Object) -> list[Cause]:
        policy = obj["preemptionPolicy"]
        if policy not in PREEMPTION:
            return [unsupported("preemptionPolicy", policy, PREEMPTION)]
        name = str(obj["metadata"].get("name") or "")
        if name.startswith("system-"):
            fault = _system_fault(name, obj)
            return [forbidden("metadata.name", f"{RESERVED} error: {fault}")] if fault else []
        if obj["value"] > HIGHEST:
            return [forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}")]
        return []

    def protected(self, obj: Object) -> str:
        is_system = obj["metadata"]["name"] in SYSTEM
        return "this is a system priority class and cannot be deleted" if is_system else ""

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        value = [] if new.get("value") == old.get("value") else [forbidden("value", "may not be changed in an update.")]
        return value + changed_causes(new, old, "preemptionPolicy")


def _system_fault(name: str, obj: Object) -> str:
    """Return why a class with the system's prefix is not one of its own; empty if it is."""
    if name not in SYSTEM:
        return f"{name} is not a known system priority class"
    if obj["value"] != SYSTEM[name]:
        return f"value of {name} PriorityClass must be {SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""


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


def system_classes() -> list[Object]:
    named = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [
        {**named, "metadata": {"name": name}, "value": value, "description": SYSTEM_DESCRIPTIONS[name]}
        for name, value in SYSTEM.items()
    ]


PRIORITIES = Served(
    **asdict(kinds.PRIORITYCLASSES),
    strategy=PriorityStrategy(),
    columns=(
        NAME,
        Column("Value", lambda obj: obj.get("value", 0), type="integer"),
        Column("Global-Default", lambda obj: bool(obj.get("globalDefault")), type="boolean"),
        AGE,
        Column("PreemptionPolicy", cell("preemptionPolicy")),
    ),
)

RUNTIMES = Served(
    **asdict(kinds.RUNTIMECLASSES),
    strategy=RuntimeClassStrategy(),
    versioned_update=True,
    columns=(NAME, Column("Handler", cell("handler")), AGE),
)

ROWS = (PRIORITIES, RUNTIMES)
