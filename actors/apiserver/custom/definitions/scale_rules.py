"""Validate the fields that the scale subresource maps to a Scale."""

from collections.abc import Mapping
from typing import Any

from actors.apiserver.api.causes import Cause, invalid
from actors.apiserver.api.objects import Obj, at

MOST = 2**31 - 1


def scale_causes(obj: Obj, scale: Mapping[str, str], whole: bool = True) -> list[Cause]:
    """Return the faults of the mapped fields; with `whole`, also of those in the spec."""
    if not scale:
        return []
    causes = _replicas(obj, scale.get("specReplicasPath", "")) if whole else []
    causes += _replicas(obj, scale.get("statusReplicasPath", ""))
    path = scale.get("labelSelectorPath") or ""
    selector = value_at(obj, path) if path else None
    if selector is not None and not isinstance(selector, str):
        causes.append(_wrong(path, "", selector, "string"))
    return causes


def _replicas(obj: Obj, path: str) -> list[Cause]:
    value = value_at(obj, path)
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int):
        return [_wrong(path, 0, value, "int64")]
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    return [invalid(path, value, f"should be less than or equal to {MOST}")] if value > MOST else []


def value_at(obj: Obj, path: str) -> Any:
    """Return the value at a path of plain names such as `.spec.replicas`, or None."""
    return at(obj, *path.removeprefix(".").split("."))


def _wrong(path: str, shown: object, value: Any, wanted: str) -> Cause:
    kinds = {bool: "bool", float: "float64", str: "string", dict: "map[string]interface {}", list: "[]interface {}"}
    found = kinds.get(type(value), "int64")
    detail = f"{path} accessor error: {value} is of the type {found}, expected {wanted}"
    return invalid(path, shown, detail)
