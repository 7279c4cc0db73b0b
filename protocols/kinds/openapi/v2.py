"""OpenAPI v2: the schemas of all v3 documents as one list of definitions, for clients that know no v3.

As JSON, or as gnostic's protobuf message openapi.v2.Document, which kubectl asks for. Paths are left out: kubectl reads
them in v3 only. What v2 cannot say (anyOf, oneOf, not, nullable) is left out too.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from protocols.kube.meta import Object
from protocols.wire.protobuf import delimited, number

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
INFO = {"title": "nodeplane", "version": "unversioned"}
V3_REFERENCE, V2_REFERENCE = "#/components/schemas/", "#/definitions/"
UNSAYABLE = ("anyOf", "oneOf", "not", "nullable", "allOf")


def definitions(documents: Iterable[bytes]) -> dict[str, Object]:
    """Return the definitions of v3 documents, by name."""
    definitions: dict[str, Object] = {}
    for document in documents:
        for name, schema in msgspec.json.decode(document)["components"]["schemas"].items():
            definitions[name] = _merged(definitions[name], schema) if name in definitions else converted(schema)
    return dict(sorted(definitions.items()))


def _merged(held: Object, schema: Object) -> Object:
    """Add the kinds that another document gives to a definition."""
    kinds = "x-kubernetes-group-version-kind"
    new = [gvk for gvk in schema.get(kinds, ()) if gvk not in held.get(kinds, ())]
    return {**held, kinds: [*held.get(kinds, ()), *new]} if new else held


def converted(schema: Any) -> Object:
    """Return a schema of v3 as one of v2."""
    if not isinstance(schema, dict):
        return {}
    v2 = {key: value for key, value in schema.items() if key not in UNSAYABLE}
    for only in (schema.get("allOf") or ())[:1]:
        v2 = {**converted(only), **v2}
    if "$ref" in v2:
        kept = {key: v2[key] for key in ("description", "x-kubernetes-patch-strategy") if key in v2}
        return {"$ref": v2["$ref"].replace(V3_REFERENCE, V2_REFERENCE), **kept}
    if "oneOf" in schema and "type" not in v2:  # quantities, and numbers or names of ports
        v2["type"] = "string"
    if "properties" in v2:
        v2["properties"] = {name: converted(inner) for name, inner in v2["properties"].items()}
    if "items" in v2:
        v2["items"] = converted(v2["items"])
    if isinstance(v2.get("additionalProperties"), dict):
        v2["additionalProperties"] = converted(v2["additionalProperties"])
    return v2


def as_json(definitions: Mapping[str, Object]) -> bytes:
    """Return the whole document as JSON."""
    return msgspec.json.encode({"swagger": "2.0", "info": INFO, "paths": {}, "definitions": definitions})


def as_protobuf(definitions: Mapping[str, Object]) -> bytes:
    """Return the whole document as gnostic's message.

    Its field numbers: swagger = 1, info = 2 (title = 1, version = 2), paths = 8, definitions = 9.
    """
    info = _text(1, INFO["title"]) + _text(2, INFO["version"])
    named = b"".join(_named(name, schema) for name, schema in definitions.items())
    return _text(1, "2.0") + delimited(2, info) + delimited(8, b"") + delimited(9, named)


def _named(name: str, schema: Object) -> bytes:
    return delimited(1, _text(1, name) + delimited(2, _schema(schema)))


def _schema(schema: Object) -> bytes:
    parts = [_text(field, schema[key]) for key, field in TEXTS.items() if isinstance(schema.get(key), str)]
    if "default" in schema:
        parts.append(delimited(5, _any(schema["default"])))
    parts += [_text(19, name) for name in schema.get("required", ())]
    parts += [delimited(20, _any(value)) for value in schema.get("enum", ())]
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        parts.append(delimited(21, delimited(1, _schema(more))))
    elif more is not None:
        parts.append(delimited(21, number(2, int(bool(more)))))
    if "type" in schema:
        parts.append(delimited(22, _text(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        parts.append(delimited(23, delimited(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(delimited(25, b"".join(_named(name, inner) for name, inner in schema["properties"].items())))
    extensions = ((key, value) for key, value in schema.items() if key.startswith("x-"))
    parts += [delimited(31, _text(1, key) + delimited(2, _any(value))) for key, value in extensions]
    return b"".join(parts)


TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
"""Fields of a schema that are texts."""


def _any(value: Any) -> bytes:
    """Return a value as YAML, of which JSON is a part."""
    return _text(2, msgspec.json.encode(value).decode() + "\n")


def _text(field: int, text: str) -> bytes:
    return delimited(field, text.encode())
