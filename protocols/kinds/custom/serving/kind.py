"""A served version of a custom resource; its schema is compiled on first use."""

import functools
import re
from collections.abc import Mapping
from typing import Any

from protocols.kinds.custom.definitions.definition import Definition, Version
from protocols.kinds.custom.schema.coercion import drop_nulls, has_defaults, pruned, pruned_part
from protocols.kinds.custom.schema.embedded import clean_embedded
from protocols.kinds.custom.schema.node import Node
from protocols.kinds.custom.schema.ownership import shape_of
from protocols.kinds.shapes.clean import clean_part
from protocols.kinds.shapes.descriptions import description
from protocols.kinds.shapes.registry import META, registry
from protocols.kinds.shapes.shape import Shape
from protocols.kube.meta import Object

OBJECT_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _openapi_schema(raw: dict[str, Any]) -> dict[str, Any]:
    properties = dict(raw.get("properties") or {})
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": description("Any", name)}
    properties["metadata"] = {"allOf": [{"$ref": OBJECT_META}], "description": description("Any", "metadata")}
    return {**raw, "type": "object", "properties": properties}


VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


class Kind:
    """One served version of a definition, shared by all requests; a changed definition makes a new one."""

    def __init__(self, definition: Definition, version: Version) -> None:
        self.definition = definition
        self.version = version
        self.api_version = f"{definition.group}/{version.name}"
        self.terminating = definition.terminating
        self.warning = _warning(definition, version)
        self.scale: Mapping[str, str] = version.scale

    @functools.cached_property
    def node(self) -> Node:
        return Node(self.version.schema)

    @functools.cached_property
    def has_defaults(self) -> bool:
        return has_defaults(self.node)

    @functools.cached_property
    def shape(self) -> Shape:
        return shape_of(self.node, self.component_name, registry().structs[f"{META}.ObjectMeta"])

    @property
    def component_name(self) -> str:
        """Return the OpenAPI component name, as in `com.example.v1.CronTab`."""
        reverse = ".".join(reversed(self.definition.group.split(".")))
        return f"{reverse}.{self.version.name}.{self.definition.names.kind}"

    def clean(self, obj: Object) -> list[str]:
        unknown = [*self._clean_metadata(obj), *pruned(obj, self.node)]
        return unknown + self._clean_values(obj)

    def clean_part(self, obj: Object, field: str) -> list[str]:
        if field == "metadata":
            return self._clean_metadata(obj)
        return pruned_part(obj, self.node, field) + self._clean_values(obj)

    def _clean_values(self, obj: Object) -> list[str]:
        """Remove nulls and clean embedded metadata; return the paths of unknown fields."""
        drop_nulls(obj, self.node)
        return clean_embedded(obj, self.node)

    def _clean_metadata(self, obj: Object) -> list[str]:
        """Clean metadata against ObjectMeta, independent of the schema."""
        return clean_part(obj["metadata"], self.shape, "metadata") if obj.get("metadata") is not None else []

    def component(self) -> tuple[str, Object]:
        return self.component_name, _openapi_schema(self.version.schema)


def _warning(definition: Definition, version: Version) -> str:
    if not version.deprecated or version.warning:
        return version.warning
    newer = [other.name for other in definition.versions if other.served and not other.deprecated]
    newer = sorted((name for name in newer if priority(name) < priority(version.name)), key=priority)
    deprecation = f"{definition.group}/{version.name} {definition.names.kind} is deprecated"
    return f"{deprecation}; use {definition.group}/{newer[0]} {definition.names.kind}" if newer else deprecation


def priority(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of discovery: v2, v1, v2beta1, v1alpha1, then others by name."""
    match = VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    level = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return level, -int(match[1]), -int(match[3] or 0), version
