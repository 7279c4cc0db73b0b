"""PriorityClass, and the two classes that exist from the start."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden
from protocols.kinds.check.table import Causes, Struct, changed_causes, one_of
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object

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


def _value(path: str, obj: Object, causes: Causes) -> None:
    name = obj["metadata"].get("name") or ""
    if not name.startswith("system-"):
        if obj["value"] > HIGHEST:
            causes.append(forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}"))
    elif fault := _system_fault(name, obj):
        causes.append(forbidden("metadata.name", f"{RESERVED} error: {fault}"))


class _PriorityStrategy(Strategy):
    has_generation = True
    rules = Struct(also=_value, preemptionPolicy=one_of(*PREEMPTION, empty=True))

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", PREEMPTION[0])
        obj["value"] = obj.get("value") or 0

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


def system_classes() -> list[Object]:
    """Return the two classes that the API server creates when they are missing."""
    named = {**kinds.PRIORITYCLASSES.type_meta}
    return [
        {**named, "metadata": {"name": name}, "value": value, "description": SYSTEM_DESCRIPTIONS[name]}
        for name, value in SYSTEM.items()
    ]


PRIORITIES = Served(
    **asdict(kinds.PRIORITYCLASSES),
    strategy=_PriorityStrategy(),
    columns=(
        NAME,
        Column("Value", lambda obj: obj.get("value", 0), type="integer"),
        Column("Global-Default", lambda obj: bool(obj.get("globalDefault")), type="boolean"),
        AGE,
        Column("PreemptionPolicy", cell("preemptionPolicy")),
    ),
)
