"""The Scale of an object: its view, and the owners of its one field.

A manager that writes a Scale owns the replicas of the object through the scale subresource. As upstream, the fields are
tracked in the Scale and mapped to the object's path of replicas.
"""

from typing import Any

from actors.apiserver.api.request.target import Target
from actors.apiserver.writes.metadata import FIELD
from actors.apiserver.writes.ownership.entries import Entries, Entry, in_order
from actors.apiserver.writes.ownership.fields import Fields, minus, union
from protocols.kinds.custom.printing.columns import format_value
from protocols.kinds.custom.serving.strategy import value_at
from protocols.kube.meta import Object
from protocols.kube.objects import at
from protocols.kube.selectors import selector_text

KIND, VERSION = "Scale", "autoscaling/v1"
IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
REPLICAS: Fields = {"f:spec": {"f:replicas": {}}}
"""The field of a Scale that has owners."""
_NAMES = ("manager", "operation", "subresource")


def scale_of(target: Target, obj: Object) -> Object:
    """Return the Scale of an object; the paths of a custom resource are in its definition."""
    metadata = {field: obj["metadata"][field] for field in IDENTITY if field in obj["metadata"]}
    scale: Object = {"kind": KIND, "apiVersion": VERSION, "metadata": metadata, "spec": {}, "status": {}}
    if replicas := _at(target, "specReplicasPath", obj):
        scale["spec"]["replicas"] = replicas
    scale["status"]["replicas"] = _at(target, "statusReplicasPath", obj) or 0
    selector = _at(target, "labelSelectorPath", obj)
    if selector:
        scale["status"]["selector"] = selector_text(selector) if isinstance(selector, dict) else format_value(selector)
    return scale


def missing_replicas(target: Target, obj: Object) -> str:
    """Return the path of the replicas if a custom object has none; workloads have a default."""
    path = target.resource.scale["specReplicasPath"] if target.resource.custom is not None else ""
    return path if path and value_at(obj, path) is None else ""


def with_scale_owners(target: Target, scale: Object, obj: Object) -> Object:
    """Return a Scale with the managedFields that concern the replicas of its object."""
    replicas = _fields(_steps(target))
    held = [_entry(entry, VERSION, REPLICAS) for entry in _entries(obj) if not minus(replicas, entry["fieldsV1"])]
    return {**scale, "metadata": {**scale["metadata"], FIELD: held}} if held else scale


def owners_of_scaled(target: Target, obj: Object, changed: Entries) -> Entries:
    """Return the managedFields of the object from those of its changed Scale; new entries have no time."""
    stored, replicas = _entries(obj), _fields(_steps(target))
    owners = {_names(entry) for entry in changed if entry["fieldsV1"]}
    kept: Entries = []
    for entry in stored:
        fields = entry["fieldsV1"] if _names(entry) in owners else minus(entry["fieldsV1"], replicas)
        if fields:
            kept.append(entry if fields == entry["fieldsV1"] else {**entry, "fieldsV1": fields})
    held = {_names(entry): index for index, entry in enumerate(kept)}
    for entry in changed:
        index = held.get(_names(entry))
        if index is not None:
            kept[index] = {**kept[index], "fieldsV1": union(kept[index]["fieldsV1"], replicas)}
        elif entry["fieldsV1"]:
            new = _entry(entry, target.resource.api_version, replicas)
            kept.append({key: value for key, value in new.items() if key != "time"})
    return in_order(kept)


def with_replicas(target: Target, obj: Object, replicas: int) -> Object:
    """Return a copy with the replicas set; parts of the path that are missing or no objects become objects."""
    *steps, last = _steps(target)
    scaled = part = {**obj}
    for step in steps:
        held = part.get(step)
        part[step] = part = {**held} if isinstance(held, dict) else {}
    part[last] = replicas
    return scaled


def _entries(obj: Object) -> Entries:
    return at(obj, "metadata", FIELD) or []


def _entry(entry: Entry, version: str, fields: Fields) -> Entry:
    return {**entry, "apiVersion": version, "fieldsV1": fields}


def _names(entry: Entry) -> tuple[str, ...]:
    return tuple(entry.get(name) or "" for name in _NAMES)


def _steps(target: Target) -> list[str]:
    return target.resource.scale["specReplicasPath"].removeprefix(".").split(".")


def _fields(steps: list[str]) -> Fields:
    fields: Fields = {}
    for step in reversed(steps):
        fields = {f"f:{step}": fields}
    return fields


def _at(target: Target, field: str, obj: Object) -> Any:
    path = target.resource.scale.get(field)
    return value_at(obj, path) if path else None
