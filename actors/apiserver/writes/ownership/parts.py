"""The parts a value falls into for ownership, each under its element; a value without parts is owned as a whole."""

from typing import Any

from actors.apiserver.api.schemas.shape import LIST, MAP, STRUCT, Shape
from actors.apiserver.writes.ownership.fields import key_element, value_element

Part = tuple[Any, Shape]


def parts(value: Any, shape: Shape) -> dict[str, Part] | None:
    """None for what is owned as a whole, for what is empty or absent, and for lists that break their own rules
    (a repeated or missing key): those have been possible before anybody applied."""
    kind = type(value)
    if not value or (kind is not dict and kind is not list) or shape.leaf:
        return None
    if shape.form == LIST:
        return _elements(value, shape) if kind is list else None
    if kind is not dict:
        return None
    if shape.form == MAP:
        assert shape.item is not None
        return {f"f:{key}": (part, shape.item) for key, part in value.items()}
    kinds, other = shape.fields, shape.item
    made = {}
    for key, part in value.items():
        child = kinds.get(key, other)
        if part is not None and child is not None:
            made[f"f:{key}"] = (part, child)
    return made


def _elements(value: list[Any], shape: Shape) -> dict[str, Part] | None:
    item = shape.item
    assert item is not None
    made: dict[str, Part] = {}
    for part in value:
        element = element_of(part, shape)
        if element is None or element in made:
            return None
        made[element] = (part, item)
    return made


def element_of(part: Any, shape: Shape) -> str | None:
    """What tells this element of a list from the others; None = nothing does."""
    if shape.scalar_set:
        return None if isinstance(part, dict | list) or part is None else value_element(part)
    if type(part) is not dict or shape.item is None or shape.item.form != STRUCT:
        return None
    values = {}
    for key in shape.keys:
        value = part.get(key)
        if value is None:
            field = shape.item.fields.get(key)
            value = field.default if field is not None else None
        if value is not None:
            values[key] = value
    return key_element(values) if values else None
