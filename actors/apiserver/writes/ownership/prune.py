"""Taking out of an object what a manager dropped and nobody else owns."""

from typing import Any

from actors.apiserver.api.objects.paths import Obj
from actors.apiserver.api.schemas.shape import LIST, STRUCT, Shape
from actors.apiserver.writes.ownership.fields import Fields, member
from actors.apiserver.writes.ownership.parts import parts

GONE = object()


def pruned(obj: Obj, dropped: Fields, kept: Fields, shape: Shape) -> Obj:
    """`dropped`: what the manager owned until now; `kept`: what anybody owns from now on."""
    made = dict(obj)
    for element, node in dropped.items():
        name = element[2:]
        field, value = shape.child(name), made.get(name)
        if field is None or value is None:
            continue
        rest = _rest(value, field, node, kept.get(element), whole=field.form != STRUCT)
        if rest is GONE:
            del made[name]
        else:
            made[name] = rest
    return made


def _rest(value: Any, shape: Shape, dropped: Fields, kept: Fields | None, whole: bool) -> Any:
    """What stays of one part. `whole`: it goes as a whole, with what is in it, when nobody keeps any of it."""
    if kept is None and whole:
        return GONE
    below = parts(value, shape)
    if below is None:
        return value
    stays = {}
    for element, (part, kind) in below.items():
        node = dropped.get(element)
        if node is None:
            stays[element] = part
            continue
        goes = shape.form == STRUCT or member(node)
        rest = _rest(part, kind, node, (kept or {}).get(element), goes)
        if rest is not GONE:
            stays[element] = rest
    return _assembled(value, shape, below, stays)


def _assembled(value: Any, shape: Shape, below: dict[str, Any], stays: dict[str, Any]) -> Any:
    if len(stays) == len(below) and all(stays[element] is part for element, (part, _) in below.items()):
        return value
    if shape.form == LIST:
        return list(stays.values())
    gone = {element[2:] for element in below if element not in stays}
    return {key: stays.get(f"f:{key}", part) for key, part in value.items() if key not in gone}
