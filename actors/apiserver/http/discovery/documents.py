"""One document for each group and version, made when a client asks, and made anew when its rows have changed."""

import hashlib

import msgspec

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.resource import Resource, Table
from actors.apiserver.api.schemas.registry import META, kind_shape, registry
from actors.apiserver.api.schemas.shape import Shape
from actors.apiserver.http.discovery.components import components
from actors.apiserver.http.discovery.operations import paths, root_of


class OpenApi:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._made: dict[str, tuple[list[Resource], bytes]] = {}

    @property
    def documents(self) -> dict[str, bytes]:
        roots = {root_of(g, v): (g, v) for g, versions in self._table.versions().items() for v in versions}
        for gone in self._made.keys() - roots.keys():
            del self._made[gone]
        return {root: self._document(root, *where) for root, where in roots.items()}

    def _document(self, root: str, group: str, version: str) -> bytes:
        rows = self._table.in_version(group, version)
        held = self._made.get(root)
        if held is None or len(held[0]) != len(rows) or any(a is not b for a, b in zip(held[0], rows, strict=True)):
            held = self._made[root] = (rows, msgspec.json.encode(_document(rows)))
        return held[1]

    def index(self) -> Obj:
        return {
            "paths": {
                root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={hashlib.sha256(body).hexdigest()[:32].upper()}"}
                for root, body in self.documents.items()
            }
        }


def _document(rows: list[Resource]) -> Obj:
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
        "paths": {path: item for row in rows for path, item in paths(row, names).items()},
        "components": {"schemas": schemas},
    }


def _kinds(rows: list[Resource]) -> dict[tuple[str, str, str], Shape | None]:
    """Kinds of the resources and of their subresources' bodies."""
    found = [(row.group, row.version, row.kind) for row in rows if row.custom is None]
    subs = [(row, (sub.group, sub.version or row.version, sub.kind)) for row in rows for sub in row.subresources]
    found += [gvk for row, gvk in subs if row.custom is None or gvk[0] != row.group]
    return {gvk: kind_shape(*gvk) for gvk in found}
