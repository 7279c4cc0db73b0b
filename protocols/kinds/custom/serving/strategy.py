"""Create and update strategy of custom objects: defaults, validation, generation, and the fields of a Scale."""

from collections.abc import Mapping
from typing import Any

from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.custom.definitions.warnings import finalizer_warnings
from protocols.kinds.custom.schema.coercion import fill
from protocols.kinds.custom.schema.embedded import embedded_causes
from protocols.kinds.custom.schema.node import MISSING, Node
from protocols.kinds.custom.schema.validate import NOWHERE, has_repeated, part_causes, schema_causes
from protocols.kinds.custom.serving.kind import Kind
from protocols.kinds.served.strategy import METADATA, Strategy, restore_all_but
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object
from protocols.kube.objects import at

MOST = 2**31 - 1


def scale_causes(obj: Object, scale: Mapping[str, str], whole: bool = True) -> list[Cause]:
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


def _replicas(obj: Object, path: str) -> list[Cause]:
    value = value_at(obj, path)
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int):
        return [_wrong(path, 0, value, "int64")]
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    return [invalid(path, value, f"should be less than or equal to {MOST}")] if value > MOST else []


def value_at(obj: Object, path: str) -> Any:
    """Return the value at a path of plain names such as `.spec.replicas`, or None."""
    return at(obj, *path.removeprefix(".").split("."))


def _wrong(path: str, shown: object, value: Any, wanted: str) -> Cause:
    kinds = {bool: "bool", float: "float64", str: "string", dict: "map[string]interface {}", list: "[]interface {}"}
    actual = kinds.get(type(value), "int64")
    detail = f"{path} accessor error: {value} is of the type {actual}, expected {wanted}"
    return invalid(path, shown, detail)


BLOCKING = [f"FieldValue{what}" for what in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")]
"""Faults that prevent the evaluation of rules."""
UNASKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class CustomStrategy(Strategy):
    """Objects of one custom resource version; without a status subresource, status is an ordinary field."""

    has_generation = True
    status_keeps = METADATA

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.has_status = kind.version.status

    def default(self, obj: Object) -> None:
        if self._kind.has_defaults:
            fill(obj, self._kind.node)

    def prepare_status(self, new: Object, old: Object) -> None:
        restore_all_but(new, old, "status")
        self.default(new)

    def validate_create(self, obj: Object) -> list[Cause]:
        node = self._kind.node
        causes = schema_causes(obj, node) + scale_causes(obj, self._kind.scale)
        return _ruled(embedded_causes(obj, node) + causes, obj, node)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        node = self._kind.node
        causes = _ratcheted(schema_causes(new, node, old), old, node) + scale_causes(new, self._kind.scale)
        return _ruled(embedded_causes(new, node) + causes, new, node, old)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        """Validate the status only: the rest is unchanged, and a newer schema might reject it."""
        node = self._kind.node
        status, causes = node.properties.get("status"), list[Cause]()
        if status is not None and "status" in new:
            causes = part_causes(new["status"], status, "status", old.get("status", MISSING))
        causes = _ratcheted(causes, old, node) + scale_causes(new, self._kind.scale, whole=False)
        return _ruled(causes, new, node, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return finalizer_warnings(new, old)

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Return True for changes outside metadata, and outside status if that is a subresource."""
        apart = ("metadata", "status") if self.has_status else ("metadata",)
        return not all(same_json(new.get(name), old.get(name)) for name in (new.keys() | old.keys()) - set(apart))


def _ratcheted(causes: list[Cause], old: Object, node: Node) -> list[Cause]:
    """Ignore duplicates if the old object already had some."""
    if any(cause.reason == "FieldValueDuplicate" for cause in causes) and has_repeated(old, node):
        return [cause for cause in causes if cause.reason != "FieldValueDuplicate"]
    return causes


def _ruled(causes: list[Cause], obj: Object, node: Node, old: Any = MISSING) -> list[Cause]:
    """Add the faults of the schema's rules, unless earlier faults prevent their evaluation."""
    if not node.ruled:
        return causes
    if any(cause.reason in BLOCKING for cause in causes):
        return [*causes, invalid(NOWHERE, None, UNASKED)]
    from protocols.kinds.custom.rule.evaluate import rule_causes

    return causes + rule_causes(obj, node, old)
