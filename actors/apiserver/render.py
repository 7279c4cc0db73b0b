"""Objects in the form the client asked for: plain, as rows of a table, or metadata only."""

from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from actors.apiserver.negotiate import PLAIN, Form
from actors.apiserver.objects import Obj
from actors.apiserver.replica.stored import Stored
from actors.apiserver.types import Resource
from protocols.kube import protobuf

_encode = msgspec.json.Encoder().encode


def render_stored(resource: Resource, stored: Stored, form: Form) -> bytes:
    """One object; plain JSON needs no decoding."""
    shown = resource.face.view(stored)
    return shown.json if form == PLAIN else render_object(resource, shown.obj, form)


def render_object(resource: Resource, obj: Obj, form: Form, columns: bool = True) -> bytes:
    if form.view == "Table":
        return _encode(table(resource, [obj], form, _version_of(obj), columns=columns))
    return dump(partial(obj, form) if form.view else obj, form)


def render_list(resource: Resource, found: Iterable[Stored], form: Form, metadata: Obj) -> bytes:
    if resource.face.changes:
        found = map(resource.face.view, found)
    if form == PLAIN:
        body = b",".join([stored.json for stored in found])
        return b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":[%b]}\n' % (
            resource.kind.encode(),
            resource.api_version.encode(),
            _encode(metadata),
            body,
        )
    if form.view == "Table":
        return _encode(table(resource, (stored.obj for stored in found), form, metadata))
    if form.view:
        return dump(_list("PartialObjectMetadata", _meta(form), [partial(s.obj, form) for s in found], metadata), form)
    return dump(_list(resource.kind, resource.api_version, [s.obj for s in found], metadata), form)


def dump(value: Any, form: Form = PLAIN) -> bytes:
    if form.protobuf:
        return protobuf.encode_object(value)
    if form.yaml:
        return yaml.safe_dump(value, sort_keys=False).encode()
    return _encode(value)


def partial(obj: Obj, form: Form) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": _meta(form), "metadata": obj.get("metadata", {})}


def table(resource: Resource, objects: Iterable[Obj], form: Form, metadata: Obj, columns: bool = True) -> Obj:
    """A meta.k8s.io Table; without `columns` for all but the first event of a watch."""
    return {
        "kind": "Table",
        "apiVersion": _meta(form),
        "metadata": metadata,
        "columnDefinitions": [_column(c) for c in resource.columns] if columns else [],
        "rows": [_row(resource, obj, form) for obj in objects],
    }


def _column(column: Any) -> Obj:
    keys = ("name", "type", "format", "description", "priority")
    return {key: getattr(column, key) for key in keys}


def _row(resource: Resource, obj: Obj, form: Form) -> Obj:
    carried = {"Object": obj, "None": None}.get(form.include, partial(obj, form))
    return {"cells": [column.cell(obj) for column in resource.columns], "object": carried}


def _meta(form: Form) -> str:
    return f"meta.k8s.io/{form.version}"


def _list(kind: str, api_version: str, items: list[Obj], metadata: Obj) -> Obj:
    return {"kind": f"{kind}List", "apiVersion": api_version, "metadata": metadata, "items": items}


def _version_of(obj: Obj) -> Obj:
    return {"resourceVersion": obj.get("metadata", {}).get("resourceVersion", "")}
