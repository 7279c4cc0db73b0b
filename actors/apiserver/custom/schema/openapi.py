"""A structural schema as clients get it in OpenAPI v3: whole, with the fields every object has."""

from typing import Any

from actors.apiserver.schemas.descriptions import description

OBJECT_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def openapi_schema(raw: dict[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in raw.items() if key != "x-kubernetes-validations"}
    properties = dict(raw.get("properties") or {})
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": description("Any", name)}
    properties["metadata"] = {"allOf": [{"$ref": OBJECT_META}], "description": description("Any", "metadata")}
    return {**made, "type": "object", "properties": properties}
