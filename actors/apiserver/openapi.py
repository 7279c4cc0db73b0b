"""OpenAPI v3, as little as kubectl needs to send writes here and leave validation to the server; and v2, which kubectl
asks for a kind it does not find there: a document without definitions, so that it goes on to say what it misses."""

import hashlib

import msgspec

from actors.apiserver.objects import Obj
from actors.apiserver.table import Table
from actors.apiserver.types import Resource

PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)

V2: Obj = {"swagger": "2.0", "info": {"title": "nodeplane", "version": "unversioned"}, "paths": {}}
V2_PROTOBUF = b"\x0a\x032.0" + b"\x12\x18\x0a\x09nodeplane\x12\x0bunversioned" + b"\x42\x00"
"""V2 as the message gnostic's openapi.v2.Document: swagger = 1, info = 2 (title = 1, version = 2), paths = 8."""
V2_MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def _root_of(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


class OpenApi:
    """Documents made once: the table does not change while we run."""

    def __init__(self, table: Table) -> None:
        self.documents: dict[str, bytes] = {}
        for group, versions in table.versions().items():
            for version in versions:
                document = _document(table.in_version(group, version))
                self.documents[_root_of(group, version)] = msgspec.json.encode(document)

    def index(self) -> Obj:
        return {
            "paths": {
                root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={hashlib.sha256(body).hexdigest()[:32].upper()}"}
                for root, body in self.documents.items()
            }
        }


def _document(rows: list[Resource]) -> Obj:
    return {
        "openapi": "3.0.0",
        "info": {"title": "nodeplane", "version": "unversioned"},
        "paths": {_path(row): _operations(row) for row in rows},
        "components": {"schemas": {}},
    }


def _path(row: Resource) -> str:
    scope = "namespaces/{namespace}/" if row.namespaced else ""
    return f"/{_root_of(row.group, row.version)}/{scope}{row.plural}/{{name}}"


def _operations(row: Resource) -> Obj:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    any_object = {"schema": {"type": "object"}}
    patch: Obj = {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": row.group, "kind": row.kind, "version": row.version},
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names],
        "requestBody": {"content": dict.fromkeys(PATCH_TYPES, any_object)},
        "responses": {"200": {"description": "OK", "content": {"application/json": any_object}}},
    }
    return {"patch": patch}
