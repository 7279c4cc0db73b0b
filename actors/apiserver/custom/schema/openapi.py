"""Publish a structural schema in OpenAPI v3, with the fields common to all objects."""

from typing import Any

from actors.apiserver.api.schemas.descriptions import description

OBJECT_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def openapi_schema(raw: dict[str, Any]) -> dict[str, Any]:
    properties = dict(raw.get("properties") or {})
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": description("Any", name)}
    properties["metadata"] = {"allOf": [{"$ref": OBJECT_META}], "description": description("Any", "metadata")}
    return {**raw, "type": "object", "properties": properties}
