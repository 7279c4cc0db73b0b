"""Messages of apiextensions that are one of several types in JSON: a schema, or a list, a boolean or names."""

from typing import Any

from protocols.kube.protobuf.types import Unencodable, Union


def _read_schemas(parts: dict[str, Any]) -> Any:
    return parts.get("jSONSchemas") or parts.get("schema")


def _write_schemas(value: Any) -> dict[str, Any]:
    return {"jSONSchemas": value} if isinstance(value, list) else {"schema": _schema(value)}


def _read_allowed(parts: dict[str, Any]) -> Any:
    return parts["schema"] if "schema" in parts else bool(parts.get("allows"))


def _write_allowed(value: Any) -> dict[str, Any]:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": _schema(value)}


def _read_names(parts: dict[str, Any]) -> Any:
    return parts.get("property") or parts.get("schema")


def _write_names(value: Any) -> dict[str, Any]:
    return {"property": value} if isinstance(value, list) else {"schema": _schema(value)}


def _schema(value: Any) -> dict[str, Any]:
    """Raises Unencodable."""
    if not isinstance(value, dict):
        raise Unencodable(f"not a schema: {value!r:.80}")
    return value


UNIONS = {
    "JSONSchemaPropsOrArray": Union(_read_schemas, _write_schemas),
    "JSONSchemaPropsOrBool": Union(_read_allowed, _write_allowed),
    "JSONSchemaPropsOrStringArray": Union(_read_names, _write_names),
}
"""By the message's name."""
