"""Encode objects and lists in the negotiated form: plain, as a table, or metadata only."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from actors.apiserver.api.encoding.negotiate import PLAIN, Form
from actors.apiserver.api.stored import METADATA, Stored, view
from protocols.kinds.check.budget import Budget, BudgetSpent, spend, within
from protocols.kinds.served.row import Column, Served
from protocols.kube import protobuf
from protocols.kube.meta import Object
from protocols.kube.objects import text

PART_BYTES, PART_ITEMS = 256 * 1024, 250
"""Bounds of the part of a list that is encoded at once."""

UNREADABLE = "<invalid>"
ROW_UNITS = 2_000
"""Budget of a row's printer columns: 250 rows are made in a turn."""
YAML_BYTES, PROTOBUF_BYTES = 1, 64
"""Bytes of stored JSON that cost one unit of a request's budget in these forms."""

_encode = msgspec.json.Encoder().encode


def render_stored(resource: Served, stored: Stored, form: Form) -> bytes:
    """Encode one stored object; plain JSON needs no decoding."""
    shown = view(resource, stored)
    if form == PLAIN:
        return shown.json
    if form.yaml:
        spend(len(stored.raw) // YAML_BYTES)
    return render_object(resource, shown.decoded(), form)


def render_object(resource: Served, obj: Object, form: Form, columns: bool = True) -> bytes:
    """Encode one object in the negotiated form; a table in a watch has `columns` in its first event only."""
    if form.view == "Table":
        return dump(table(resource, [obj], form, _version_of(obj), columns=columns), form)
    return dump(_partial(obj, form) if form.view else obj, form)


def render_list(resource: Served, objects: Iterable[Stored], form: Form, metadata: Object) -> list[bytes]:
    """Encode a list in pieces, all at once; `list_parts` yields those of JSON one by one."""
    if not (form.protobuf or form.yaml):
        return list(list_parts(resource, objects, form, metadata))
    head, name = _list(resource, form, metadata), "rows" if form.view == "Table" else "items"
    del head[name]
    shown = (_shown(resource, stored, form) for stored in objects)
    return protobuf.encode_list(head, name, shown) if form.protobuf else [_yaml({**head, name: list(shown)})]


def _shown(resource: Served, stored: Stored, form: Form) -> Object:
    """Return an item of a list that is encoded at once and thus bounded. Raises BudgetSpent, DeadlinePassed."""
    spend(len(stored.raw) // (YAML_BYTES if form.yaml else PROTOBUF_BYTES))
    obj = view(resource, stored).decoded()
    if form.view == "Table":
        return _row(resource, obj, form)
    if form.view:
        return _partial(obj, form)
    return obj if resource.custom else {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def list_parts(resource: Served, objects: Iterable[Stored], form: Form, metadata: Object) -> Iterator[bytes]:
    """Encode a list as JSON lazily, part by part.

    Items of built-in kinds have no kind and apiVersion: those of the list say it, as upstream's typed lists. Nothing of
    an item is retained: all objects would be in memory twice.
    """
    items = (view(resource, stored) for stored in objects) if resource.converter.changes else objects
    head = _encode(_list(resource, form, metadata))[: -len(b"]}")]
    batch: list[bytes | memoryview] = [head]
    size, comma, pieces = 0, b"", _pieces(resource, form)
    for number, stored in enumerate(items, 1):
        first, rest = pieces(stored)
        batch += (comma, first, rest)
        size += max(len(first) + len(rest), len(stored.raw))
        comma = b","
        if size >= PART_BYTES or number % PART_ITEMS == 0:
            yield b"".join(batch)
            batch, size = [], 0
    yield b"".join((*batch, b"]}\n"))


Pieces = tuple[bytes, bytes | memoryview]


def _pieces(resource: Served, form: Form) -> Callable[[Stored], Pieces]:
    """Return a function that encodes an item. What our own encoder wrote is not copied."""
    if form != PLAIN:
        return lambda stored: (_item(resource, stored.decoded(), form), b"")
    if resource.custom:
        return lambda stored: (b"", stored.encoded())
    typed = _encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","
    start = typed + METADATA
    skipped = len(start)

    def pieces(stored: Stored) -> Pieces:
        raw = stored.raw
        if raw.startswith(start) and raw[skipped : skipped + 1] != b"}":
            return b'{"metadata":{"resourceVersion":"%d",' % stored.rv, memoryview(raw)[skipped:]
        encoded = stored.encoded()
        return (b"{", memoryview(encoded)[len(typed) :]) if encoded.startswith(typed) else (b"", encoded)

    return pieces


def _list(resource: Served, form: Form, metadata: Object) -> Object:
    """Return a list without its items, which are encoded last."""
    if form.view == "Table":
        return table(resource, [], form, metadata)
    if form.view:
        kind, version = "PartialObjectMetadataList", _meta(form)
    else:
        kind, version = resource.list_kind, resource.api_version
    return {"kind": kind, "apiVersion": version, "metadata": metadata, "items": []}


def _item(resource: Served, obj: Object, form: Form) -> bytes:
    return _encode(_row(resource, obj, form) if form.view == "Table" else _partial(obj, form))


def dump(value: Any, form: Form = PLAIN) -> bytes:
    """Encode plain JSON values as JSON, YAML or Kubernetes protobuf."""
    if form.protobuf:
        return protobuf.encode_object(value)
    if form.yaml:
        return _yaml(value)
    return _encode(value)


def _yaml(value: Any) -> bytes:
    import yaml  # slow to load, and few clients read YAML

    written: str = yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
    return written.encode()


def _partial(obj: Object, form: Form) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": _meta(form), "metadata": obj.get("metadata", {})}


def table(resource: Served, objects: Iterable[Object], form: Form, metadata: Object, columns: bool = True) -> Object:
    """Return a meta.k8s.io Table. Of a watch, only the first event has the column definitions."""
    return {
        "kind": "Table",
        "apiVersion": _meta(form),
        "metadata": metadata,
        "columnDefinitions": [_column(c) for c in resource.columns] if columns else [],
        "rows": [_row(resource, obj, form) for obj in objects],
    }


def _column(column: Any) -> Object:
    keys = ("name", "type", "format", "description", "priority")
    return {key: getattr(column, key) for key in keys}


def _row(resource: Served, obj: Object, form: Form) -> Object:
    carried = {"Object": obj, "None": None}.get(form.include, _partial(obj, form))
    if not resource.custom:
        over = resource.row_conditions.get(text(obj, "status", "phase")) if resource.row_conditions else None
        row = {"cells": [_cell(column, obj) for column in resource.columns], "object": carried}
        return row if over is None else {**row, "conditions": [over]}
    with within(Budget(math.inf, ROW_UNITS)):
        return {"cells": [_cell(column, obj) for column in resource.columns], "object": carried}


def _cell(column: Column, obj: Object) -> Any:
    """Return a cell; an object that was stored without validation must not break the other rows."""
    try:
        return column.cell(obj)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, BudgetSpent):
        return UNREADABLE


def _meta(form: Form) -> str:
    return f"meta.k8s.io/{form.version}"


def _version_of(obj: Object) -> Object:
    return {"resourceVersion": obj.get("metadata", {}).get("resourceVersion", "")}
