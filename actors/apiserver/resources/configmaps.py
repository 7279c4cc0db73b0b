"""ConfigMaps: plain data, optionally immutable."""

from actors.apiserver.api.causes import Cause, forbidden, invalid, too_long
from actors.apiserver.api.objects import Obj, at
from actors.apiserver.api.resource import Column, Resource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME

SIZE_LIMIT = 1024 * 1024


def data_count(obj: Obj) -> int:
    return len(at(obj, "data") or {}) + len(at(obj, "binaryData") or {})


def data_causes(obj: Obj, *fields: str) -> list[Cause]:
    """Require maps of strings whose total size is within the limit."""
    causes, size = [], 0
    for name in fields:
        data = obj.get(name)
        if data is None:
            continue
        held = _size(data)
        if held is None:
            causes.append(invalid(name, data, "must be a map of strings"))
        else:
            size += held
    return [*causes, too_long("data", SIZE_LIMIT)] if size > SIZE_LIMIT else causes


def _size(data: object) -> int | None:
    """Return the total length of the values, or None if this is not a map of strings."""
    if not isinstance(data, dict):
        return None
    size = 0
    for value in data.values():
        if not isinstance(value, str):
            return None
        size += len(value)
    return size


def immutable_causes(new: Obj, old: Obj, *fields: str) -> list[Cause]:
    if old.get("immutable") is not True:
        return []
    causes = [forbidden("immutable", "field is immutable when `immutable` is set")] if not new.get("immutable") else []
    changed = [name for name in fields if new.get(name) != old.get(name)]
    return causes + [forbidden(name, "field is immutable when `immutable` is set") for name in changed]


class ConfigMapStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        return data_causes(obj, "data", "binaryData")

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        return self.validate_create(new) + immutable_causes(new, old, "data", "binaryData")


CONFIGMAPS = Resource(
    group="",
    version="v1",
    plural="configmaps",
    singular="configmap",
    kind="ConfigMap",
    namespaced=True,
    strategy=ConfigMapStrategy(),
    short_names=("cm",),
    columns=(NAME, Column("Data", data_count), AGE),
)
