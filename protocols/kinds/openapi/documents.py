"""OpenAPI: one v3 document for each group and version, made on demand and again when its resources have changed.

Shapes become component schemas, resources become paths and operations.
"""

import hashlib
from collections.abc import Iterable, Mapping
from operator import is_not
from typing import NamedTuple

import msgspec

from protocols.kinds.served.row import Served, Table
from protocols.kinds.shapes.descriptions import description
from protocols.kinds.shapes.registry import META, kind_shape, registry
from protocols.kinds.shapes.shape import LIST, MAP, STRUCT, Shape
from protocols.kube.meta import Object

MACHINERY = "io.k8s.apimachinery.pkg"
NAMED: dict[str, tuple[str, Object]] = {
    "time": (f"{MACHINERY}.apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
    "microtime": (f"{MACHINERY}.apis.meta.v1.MicroTime", {"type": "string", "format": "date-time"}),
    "quantity": (f"{MACHINERY}.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "int-or-string": (
        f"{MACHINERY}.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "any": (f"{MACHINERY}.runtime.RawExtension", {"type": "object"}),
}
INLINE: dict[str, Object] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bytes": {"type": "string", "format": "byte"},
    "json": {"x-kubernetes-preserve-unknown-fields": True},
}


def components(roots: Iterable[Shape]) -> dict[str, Object]:
    """Return the schemas of these structs and of all they refer to, by full name."""
    waiting, schemas = list(roots), {}
    while waiting:
        struct = waiting.pop()
        if struct.name not in schemas:
            schemas[struct.name] = _component(struct)
            waiting += [inner for field in struct.fields.values() for inner in _structs(field)]
    return {**dict(NAMED.values()), **schemas}


def _reference(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def _structs(shape: Shape) -> list[Shape]:
    while shape.item is not None:
        shape = shape.item
    return [shape] if shape.form == STRUCT else []


def _component(struct: Shape) -> Object:
    schema: Object = {"type": "object", "properties": {name: _field(struct, name) for name in struct.fields}}
    if struct.required:
        schema["required"] = list(struct.required)
    if struct.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    text = description(struct.name)
    if text:
        schema["description"] = text
    return schema


def _field(struct: Shape, name: str) -> Object:
    schema, text = _schema(struct.fields[name]), description(struct.name, name)
    if "$ref" in schema:
        schema = {"allOf": [schema]}
        if strategy := struct.fields[name].patch[0]:
            schema["x-kubernetes-patch-strategy"] = strategy
    return {**schema, "description": text} if text else schema


def _schema(shape: Shape) -> Object:
    if shape.form == STRUCT:
        return _reference(shape.name)
    if shape.form == LIST:
        return _list(shape)
    if shape.form == MAP:
        schema = {"type": "object", "additionalProperties": _schema(shape.item) if shape.item else True}
        return {**schema, "x-kubernetes-map-type": "atomic"} if shape.atomic else schema
    if shape.form in NAMED:
        return _reference(NAMED[shape.form][0])
    return {**INLINE[shape.form], "default": shape.default} if shape.default else INLINE[shape.form]


def _list(shape: Shape) -> Object:
    kind = "map" if shape.keys else "set" if shape.scalar_set else "atomic"
    schema: Object = {
        "type": "array",
        "items": _schema(shape.item) if shape.item else {},
        "x-kubernetes-list-type": kind,
    }
    if shape.keys:
        schema["x-kubernetes-list-map-keys"] = list(shape.keys)
    strategy, key = shape.patch
    if strategy:
        schema["x-kubernetes-patch-strategy"] = strategy
    if key:
        schema["x-kubernetes-patch-merge-key"] = key
    return schema


PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
LIST_PARAMETERS = ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion")
WATCH_PARAMETERS = ("resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch")
DELETE_PARAMETERS = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
PARAMETERS = {
    "get": ("resourceVersion",),
    "list": LIST_PARAMETERS + WATCH_PARAMETERS,
    "create": WRITE_PARAMETERS,
    "update": WRITE_PARAMETERS,
    "patch": (*WRITE_PARAMETERS, "force"),
    "delete": DELETE_PARAMETERS,
    "deletecollection": DELETE_PARAMETERS + LIST_PARAMETERS,
}
METHODS = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
METHODS["deletecollection"] = "delete"
ACTIONS = {"create": "post", "update": "put"}
TYPES = {"limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer"}
TYPES |= dict.fromkeys(("allowWatchBookmarks", "sendInitialEvents", "watch", "force"), "boolean")


def _root_of(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def resource_paths(row: Served, names: dict[str, str]) -> dict[str, Object]:
    """Return the operations of a resource by path; `names` are component names by kind."""
    base = f"/{_root_of(row.group, row.version)}/"
    inside = f"{base}namespaces/{{namespace}}/{row.plural}" if row.namespaced else f"{base}{row.plural}"
    paths = {
        inside: _path(row, [v for v in ("list", "create", "deletecollection") if v in row.verbs], names),
        f"{inside}/{{name}}": _path(row, [v for v in ("get", "update", "patch", "delete") if v in row.verbs], names),
    }
    if row.namespaced:
        paths[f"{base}{row.plural}"] = _path(row, ["list"], names)
    for sub in row.subresources:
        gvk = {"group": sub.group, "version": sub.version or row.version, "kind": sub.kind}
        paths[f"{inside}/{{name}}/{sub.name}"] = _operations(gvk, sub.verbs, names)
    if row.custom is not None:
        for operations in paths.values():
            _without_strategic(operations)
    return {path: {**operations, **_variables(path)} for path, operations in paths.items()}


def _without_strategic(operations: Object) -> None:
    """Drop the strategic merge patch: only server-side apply knows how lists of custom kinds merge."""
    if "patch" in operations:
        operations["patch"]["requestBody"]["content"].pop("application/strategic-merge-patch+json")


def _path(row: Served, verbs: list[str], names: dict[str, str]) -> Object:
    return _operations({"group": row.group, "version": row.version, "kind": row.kind}, verbs, names)


def _variables(path: str) -> Object:
    words = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return {"parameters": [{**_parameter(word, "path"), "required": True} for word in words]} if words else {}


def _parameter(name: str, place: str = "query") -> Object:
    return {"name": name, "in": place, "schema": {"type": TYPES.get(name, "string")}}


def _operations(gvk: Object, verbs: list[str] | tuple[str, ...], names: dict[str, str]) -> Object:
    return {METHODS[verb]: _operation(gvk, verb, names) for verb in verbs if verb in METHODS}


def _operation(gvk: Object, verb: str, names: dict[str, str]) -> Object:
    name = names.get(gvk["kind"], "")
    whole: Object = {"schema": _reference(name) if name else {"type": "object"}}
    anything: Object = {"schema": {"type": "object"}}
    operation: Object = {
        "x-kubernetes-action": ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": gvk,
        "parameters": [_parameter(name) for name in PARAMETERS[verb]],
        "responses": {"200": {"description": "OK", "content": {"application/json": _response_schema(verb, whole)}}},
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"required": True, "content": {"application/json": whole}}
    if verb == "patch":
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(PATCH_TYPES, anything)}
    return operation


def _response_schema(verb: str, whole: Object) -> Object:
    plain: Object = {"schema": {"type": "object"}}
    return whole if verb in ("get", "create", "update", "patch") else plain


def content_hash(body: bytes) -> str:
    """Return the hash by which clients know a document again."""
    return hashlib.sha256(body).hexdigest()[:32].upper()


class Document(NamedTuple):
    """The document of one group and version, the resources that it was made of, and its hash."""

    rows: list[Served]
    body: bytes
    hash: str


class OpenApi:
    """Documents by group and version, with the hash by which clients cache them. Several threads may ask at once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._held: tuple[tuple[Served, ...], dict[str, Document]] = ((), {})
        """All documents, and the resources of the table that they were made of."""

    def current(self) -> dict[str, Document] | None:
        """Return all documents if no resource has changed since they were made."""
        rows, documents = self._held
        return documents if rows is self._table.rows else None

    def made(self) -> dict[str, Document]:
        """Return all documents; those of unchanged resources are the same as before. Thousands take seconds."""
        rows = self._table.rows
        versions = [(group, version) for group, names in self._table.versions().items() for version in names]
        documents = {_root_of(*where): self._made_of(*where) for where in versions}
        self._held = rows, documents
        return documents

    def _made_of(self, group: str, version: str) -> Document:
        rows, held = self._table.in_version(group, version), self._held[1].get(_root_of(group, version))
        if held is not None and len(held.rows) == len(rows) and not any(map(is_not, held.rows, rows)):
            return held
        body = msgspec.json.encode(_document(rows))
        return Document(rows, body, content_hash(body))


def index(documents: Mapping[str, Document]) -> Object:
    """Return where each document is found."""
    return {"paths": {root: {"serverRelativeURL": url_of(root, made)} for root, made in documents.items()}}


def url_of(root: str, document: Document) -> str:
    """Return the path at which this document, and no later one of the version, is found."""
    return f"/openapi/v3/{root}?hash={document.hash}"


def _document(rows: list[Served]) -> Object:
    kinds = {kind: shape for kind, shape in _kinds(rows).items() if shape is not None}
    custom = [(row, *row.custom.component()) for row in rows if row.custom is not None]
    schemas = components([*kinds.values(), *([registry().structs[f"{META}.ObjectMeta"]] if custom else [])])
    for (group, version, kind), shape in kinds.items():
        gvk = {"group": group, "version": version, "kind": kind}
        schemas[shape.name] = {**schemas[shape.name], "x-kubernetes-group-version-kind": [gvk]}
    names = {kind: shape.name for (_, _, kind), shape in kinds.items()}
    for row, name, schema in custom:
        gvk = {"group": row.group, "version": row.version, "kind": row.kind}
        schemas[name] = {**schema, "x-kubernetes-group-version-kind": [gvk]}
        names[row.kind] = name
    return {
        "openapi": "3.0.0",
        "info": {"title": "nodeplane", "version": "unversioned"},
        "paths": {path: item for row in rows for path, item in resource_paths(row, names).items()},
        "components": {"schemas": schemas},
    }


def _kinds(rows: list[Served]) -> dict[tuple[str, str, str], Shape | None]:
    """Return the kinds of the resources and of their subresources' bodies."""
    gvks = [(row.group, row.version, row.kind) for row in rows if row.custom is None]
    subs = [(row, (sub.group, sub.version or row.version, sub.kind)) for row in rows for sub in row.subresources]
    gvks += [gvk for row, gvk in subs if row.custom is None or gvk[0] != row.group]
    return {gvk: kind_shape(*gvk) for gvk in gvks}
