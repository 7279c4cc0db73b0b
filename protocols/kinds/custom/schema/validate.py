"""Validate a custom object against its schema. Reports all faults in document order; messages equal upstream's.

Unchanged parts of an update are not validated again, so an object that a newer schema would reject can still be
changed elsewhere (ratcheting).
"""

import math
from typing import Any

import msgspec

from protocols.kinds.check.budget import spend
from protocols.kinds.check.causes import Cause, duplicate, invalid, required, too_long, unsupported
from protocols.kinds.custom.schema.node import MISSING, Node
from protocols.kube.formats import fits
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object

LARGEST_INTEGER, LARGEST_WHOLE = 2**63, 2**53 - 1
"""Beyond them, upstream reads an integer as a float, and takes a float for no integer. Formats bound no numbers."""


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) and -LARGEST_INTEGER <= value < LARGEST_INTEGER:
        return "integer"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _has_type(value: Any, wanted: str) -> bool:
    if wanted == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer() and abs(value) <= LARGEST_WHOLE
    return _type_of(value) == wanted


def _limit_causes(value: Any, node: Node, path: str) -> list[Cause]:
    raw = node.raw
    causes = []
    if raw.get("enum") is not None and not any(same_json(value, allowed) for allowed in raw["enum"]):
        causes.append(unsupported(path, value, [v if isinstance(v, str) else _json(v) for v in raw["enum"]]))
    if isinstance(value, str):
        return causes + _text_causes(value, node, path)
    if isinstance(value, list):
        return causes + _size_causes(len(value), raw, path, "Items", value)
    if isinstance(value, dict):
        return causes + _size_causes(len(value), raw, path, "Properties", value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return causes + _number_causes(value, raw, path)
    return causes


def _text_causes(value: str, node: Node, path: str) -> list[Cause]:
    raw = node.raw
    causes = []
    if raw.get("maxLength") is not None and len(value) > raw["maxLength"]:
        causes.append(too_long(path, raw["maxLength"]))
    if raw.get("minLength") is not None and len(value) < raw["minLength"]:
        causes.append(invalid(path, value, f"{path} in body should be at least {raw['minLength']} chars long"))
    if node.pattern is not None and not node.pattern.found_in(value):
        causes.append(invalid(path, value, f"{path} in body should match '{node.pattern.text}'"))
    form = raw.get("format")
    if form and not fits(form, value):
        causes.append(_type_invalid(path, value, f"{path} in body must be of type {form}: {_json(value)}"))
    return causes


def _size_causes(size: int, raw: dict[str, Any], path: str, what: str, value: Any) -> list[Cause]:
    most, least = raw.get(f"max{what}"), raw.get(f"min{what}")
    causes = []
    if most is not None and size > most:
        causes.append(Cause(path, "FieldValueTooMany", f"Too many: {size}: must have at most {most} items"))
    if least is not None and size < least:
        causes.append(invalid(path, size, f"{path} in body should have at least {least} {what.lower()}"))
    return causes


def _number_causes(value: float, raw: dict[str, Any], path: str) -> list[Cause]:
    causes = []
    most, least, step = raw.get("maximum"), raw.get("minimum"), raw.get("multipleOf")
    if most is not None and (value > most or (raw.get("exclusiveMaximum") and value == most)):
        words = "less than" if raw.get("exclusiveMaximum") else "less than or equal to"
        causes.append(invalid(path, value, f"{path} in body should be {words} {_number(most)}"))
    if least is not None and (value < least or (raw.get("exclusiveMinimum") and value == least)):
        words = "greater than" if raw.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(invalid(path, value, f"{path} in body should be {words} {_number(least)}"))
    if step and not _is_multiple(value, step):
        causes.append(invalid(path, value, f"{path} in body should be a multiple of {_number(step)}"))
    return causes


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        ratio = value / step
    except OverflowError:  # an integer beyond the doubles
        return False
    return math.isfinite(ratio) and math.isclose(ratio, round(ratio), abs_tol=1e-9)


def _type_invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause(path, "FieldValueTypeInvalid", invalid(path, value, detail).message)


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


NOWHERE = "<nil>"
"""Path that upstream reports for a failed schema combination."""
MAX_CAUSES = 100
VALUE_UNITS = 3
"""Cost of validating one value against one schema, in microseconds; each combined schema counts again."""


def schema_causes(obj: Object, root: Node, old: Any = MISSING) -> list[Cause]:
    """Validate a whole object; of its metadata only the names, if the schema restricts them."""
    return _value(obj, root, "", old)[:MAX_CAUSES]


def part_causes(value: Any, node: Node, path: str, old: Any = MISSING) -> list[Cause]:
    """Check a part of an object, MAX_CAUSES causes at most; what equals `old` is not checked."""
    return _value(value, node, path, old)[:MAX_CAUSES]


def has_repeated(value: Any, node: Node) -> bool:
    """Return True if a set or map list anywhere in the value has duplicate elements."""
    if isinstance(value, dict):
        parts = [(part, node.child(name)) for name, part in value.items()]
        return any(child is not None and has_repeated(part, child) for part, child in parts)
    if not isinstance(value, list) or node.items is None:
        return False
    return bool(_repeated(value, node, "")) or any(has_repeated(part, node.items) for part in value)


def _value(value: Any, node: Node, path: str, old: Any) -> list[Cause]:
    if old is not MISSING and same_json(old, value):
        return []
    spend(VALUE_UNITS)
    wrong = None if value is None and node.nullable else _type_cause(value, node, path)
    causes = [wrong] if wrong is not None else []
    causes += _limit_causes(value, node, path)
    if value is None:
        return causes
    if isinstance(value, dict):
        causes += _object_causes(value, node, path, old)
    elif isinstance(value, list):
        causes += _list_causes(value, node, path, old)
    return causes + _combined(value, node, path)


def _type_cause(value: Any, node: Node, path: str) -> Cause | None:
    actual = _type_of(value)
    if node.int_or_string:
        fits = actual in ("integer", "string") or _has_type(value, "integer")
        wanted = "integer,string"
    else:
        fits, wanted = not node.type or _has_type(value, node.type), node.type
    return None if fits else _type_invalid(path, actual, f'{path} in body must be of type {wanted}: "{actual}"')


def _object_causes(value: Object, node: Node, path: str, old: Any) -> list[Cause]:
    below = f"{path}." if path else ""
    causes = [required(f"{below}{name}") for name in node.required if name not in value]
    before = old if isinstance(old, dict) else {}
    for name, part in value.items():
        child = node.child(name)
        if child is not None:
            causes += _value(part, child, f"{below}{name}", before.get(name, MISSING))
    return causes


def _list_causes(value: list[Any], node: Node, path: str, old: Any) -> list[Cause]:
    causes = _repeated(value, node, path)
    if node.items is None:
        return causes
    before = _by_key(old, node) if isinstance(old, list) else {}
    for index, part in enumerate(value):
        was = before.get(_key(part, node), MISSING) if before else MISSING
        causes += _value(part, node.items, f"{path}[{index}]", was)
        if len(causes) > MAX_CAUSES:
            break
    return causes


def _by_key(old: list[Any], node: Node) -> dict[str, Any]:
    """Return the elements of a map list by key; other lists have no keys."""
    return {_key(part, node): part for part in old} if node.list_type == "map" else {}


def _repeated(value: list[Any], node: Node, path: str) -> list[Cause]:
    if node.list_type not in ("set", "map"):
        return []
    seen: set[str] = set()
    causes = []
    for index, part in enumerate(value):
        key = _key(part, node)
        if key in seen:
            causes.append(duplicate(f"{path}[{index}]", _names(part, node)))
        seen.add(key)
    return causes


def _key(part: Any, node: Node) -> str:
    return repr(_names(part, node))


def _names(part: Any, node: Node) -> Any:
    """Return the identity of an element: its keys in a map list, else the element itself."""
    return {name: part.get(name) for name in node.keys} if node.list_type == "map" and isinstance(part, dict) else part


def _combined(value: Any, node: Node, path: str) -> list[Cause]:
    all_of, any_of = _faults(value, node.all_of, path), _faults(value, node.any_of, path, one=True)
    one_of = _faults(value, node.one_of, path)
    causes = [cause for faults in all_of for cause in faults]
    if causes:
        none = ". None validated" if all(all_of) else ""
        causes.append(_junctor(path, f"must validate all the schemas (allOf){none}"))
    if any_of and all(any_of):
        causes.append(_junctor(path, "must validate at least one schema (anyOf)"))
        causes += _nearest(value, node.any_of, any_of)
    if one_of and (count := one_of.count([])) != 1:
        alternatives = f"Found {count} valid alternatives" if count else "Found none valid"
        causes.append(_junctor(path, f"must validate one and only one schema (oneOf). {alternatives}"))
        causes += [] if count else _nearest(value, node.one_of, one_of)
    if node.no is not None and not _value(value, node.no, path, MISSING):
        causes.append(_junctor(path, "must not validate the schema (not)"))
    return causes


def _junctor(path: str, fault: str) -> Cause:
    return invalid(NOWHERE, "", f'"{path}" {fault}')


def _faults(value: Any, branches: list[Node], path: str, *, one: bool = False) -> list[list[Cause]]:
    """Return the faults of each branch; with `one` up to the first that has none."""
    faults: list[list[Cause]] = []
    for branch in branches:
        faults.append(_value(value, branch, path, MISSING)[:MAX_CAUSES])
        if one and not faults[-1]:
            break
    return faults


def _nearest(value: Any, branches: list[Node], faults: list[list[Cause]]) -> list[Cause]:
    """Return the faults of the first branch that is about the most parts of the value, as upstream."""
    covered = [_covered(value, branch) for branch in branches]
    return faults[covered.index(max(covered))]


def _covered(value: Any, node: Node) -> int:
    """Return the number of parts of a value that a schema is about."""
    spend(VALUE_UNITS)
    if isinstance(value, dict):
        parts = [(part, node.child(name)) for name, part in value.items()]
        return 1 + sum(_covered(part, child) for part, child in parts if child is not None)
    if isinstance(value, list) and node.items is not None:
        return 1 + sum(_covered(part, node.items) for part in value)
    return 1
