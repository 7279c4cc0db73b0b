"""An applied configuration laid over an object: what it names is set, what it does not name stays."""

from typing import Any

from actors.apiserver.api.objects.paths import Obj
from actors.apiserver.api.schemas.shape import LIST, Shape
from actors.apiserver.writes.ownership.errors import ConfigInvalid
from actors.apiserver.writes.ownership.parts import element_of


def without_nulls(value: Any) -> Any:
    """null names no value: a configuration says nothing by it."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value if part is not None]
    return value


def merged(live: Obj, config: Obj, shape: Shape) -> Obj:
    """Raises ConfigInvalid. Shares what did not change with its arguments."""
    made: Obj = _merge(live, config, shape, "")
    return made


def _merge(live: Any, config: Any, shape: Shape, path: str) -> Any:
    if shape.leaf:
        return config
    if shape.form == LIST and isinstance(config, list):
        return _merge_list(live, config, shape, path)
    if not isinstance(config, dict):
        return config  # of a wrong type, which is found when the result is looked at, or of a type nobody declared
    made = dict(live) if isinstance(live, dict) else {}
    for key, value in config.items():
        child = shape.child(key)
        if child is None:
            raise ConfigInvalid(f"{path}.{key}: field not declared in schema")
        made[key] = _merge(made.get(key), value, child, f"{path}.{key}")
    return made


def _merge_list(live: Any, config: list[Any], shape: Shape, path: str) -> list[Any]:
    """In the configuration's order; elements only the object has stay before those they stood before."""
    wanted = _by_element(config, shape, path)
    had = [(element_of(part, shape), part) for part in (live if isinstance(live, list) else ())]
    stands = {element: part for element, part in reversed(had) if element is not None}
    assert shape.item is not None
    made, placed = [], set()

    def place(element: str) -> None:
        placed.add(element)
        before = stands.get(element)
        assert shape.item is not None
        made.append(_merge(before, wanted[element], shape.item, path) if shape.keys else wanted[element])

    order = iter(wanted)
    for element, part in had:
        if element not in wanted:
            made.append(part)
            continue
        while element not in placed:
            place(next(order))
    for element in order:
        place(element)
    return made


def _by_element(config: list[Any], shape: Shape, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for index, part in enumerate(config):
        element = element_of(part, shape)
        if element is None:
            keys = ", ".join(f'"{key}"' for key in shape.keys)
            text = "associative list with keys has an element that omits all key fields"
            raise ConfigInvalid(f"{path}: element {index}: {text} [{keys}] (and doesn't have default values for any)")
        if element in found:
            raise ConfigInvalid(f"{path}: duplicate entries for key {element[2:]}")
        found[element] = part
    return found
