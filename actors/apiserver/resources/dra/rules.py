"""DeviceTaintRule: one taint for devices selected by name."""

from actors.apiserver.api.causes import Cause, required
from actors.apiserver.api.objects import Obj, at
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.dra.lists import each, table
from actors.apiserver.resources.dra.names import driver_causes, label_causes, pool_causes
from actors.apiserver.resources.dra.selectors import spec_of
from actors.apiserver.resources.dra.values import stamp, taint_causes

CONDITIONS = 8
SELECTOR = {"driver": driver_causes, "pool": pool_causes, "device": label_causes}


class RuleStrategy(Strategy):
    has_status = True
    has_generation = True

    def prepare_create(self, obj: Obj) -> None:
        super().prepare_create(obj)
        stamp(_taint(obj), [])

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        before = _taint(old)
        stamp(_taint(new), [{**taint, "key": each.get("key")} for taint in before for each in _taint(new)])

    def validate_create(self, obj: Obj) -> list[Cause]:
        spec = spec_of(obj)
        selector = table(spec.get("deviceSelector"))
        causes: list[Cause] = []
        for name, check in SELECTOR.items():
            if selector.get(name) is not None:
                causes += check(f"spec.deviceSelector.{name}", selector[name])
        if not isinstance(spec.get("taint"), dict):
            return [*causes, required("spec.taint")]
        return causes + taint_causes("spec.taint", spec["taint"])

    def validate_status(self, new: Obj, old: Obj) -> list[Cause]:
        return each("status.conditions", at(new, "status", "conditions"), CONDITIONS, lambda path, value: [])


def _taint(obj: Obj) -> list[Obj]:
    """Return the taint as a list of at most one."""
    taint = at(obj, "spec", "taint")
    return [taint] if isinstance(taint, dict) else []
