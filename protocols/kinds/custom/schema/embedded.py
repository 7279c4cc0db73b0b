"""Embedded resources (x-kubernetes-embedded-resource): validate their type and metadata."""

from collections.abc import Iterator
from typing import Any

import msgspec

from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.custom.schema.node import Node
from protocols.kinds.served.object_meta import common_causes, finalizer_name_causes
from protocols.kinds.shapes.clean import WrongType, clean
from protocols.kinds.shapes.registry import META, registry
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults, label_faults

MIXED = "may have mixed case, but should otherwise match: "


def clean_embedded(value: Any, node: Node) -> list[str]:
    """Remove unknown fields from embedded metadata; return their paths. Raises WrongType."""
    unknown = [name for where, part in _embedded(value, node, "") for name in _cleaned(part, where)]
    return sorted(unknown)


def embedded_causes(value: Any, node: Node, path: str = "") -> list[Cause]:
    """Check all embedded resources of an object, at any depth."""
    return [cause for where, part in _embedded(value, node, path) for cause in _one(part, where)]


def _embedded(value: Any, node: Node, path: str) -> Iterator[tuple[str, Object]]:
    if not node.embeds:
        return
    if isinstance(value, dict):
        if node.embedded:
            yield path, value
        for name, part in value.items():
            child = node.properties.get(name)
            if child is not None:
                yield from _embedded(part, child, f"{path}.{name}" if path else name)
            elif isinstance(node.additional, Node):
                yield from _embedded(part, node.additional, f"{path}[{name}]")
    elif isinstance(value, list) and node.items is not None:
        for index, part in enumerate(value):
            yield from _embedded(part, node.items, f"{path}[{index}]")


def _cleaned(obj: Object, path: str) -> list[str]:
    for name in ("apiVersion", "kind"):
        if name in obj and not isinstance(obj[name], str):
            raise WrongType(f"{path}.{name}: {invalid(name, obj[name], 'must be a string').message}")
    metadata = obj.get("metadata")
    if metadata is None:
        return []
    where = f"{path}.metadata"
    shown = msgspec.json.encode(metadata).decode()
    try:
        if not isinstance(metadata, dict):
            raise WrongType("json: cannot unmarshal into Go value of type v1.ObjectMeta")
        unknown = clean(metadata, registry().structs[f"{META}.ObjectMeta"])
    except WrongType as error:
        raise WrongType(f"{where}: Invalid value: {shown}: {error}") from None
    if metadata.get("creationTimestamp", "") is None:
        del metadata["creationTimestamp"]
    return [f"{where}.{name}" for name in unknown]


def _one(obj: Object, path: str) -> list[Cause]:
    causes = [required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in obj]
    if "apiVersion" in obj:
        causes += _api_version(obj["apiVersion"], f"{path}.apiVersion")
    if "kind" in obj:
        causes += _kind(obj["kind"], f"{path}.kind")
    metadata = obj.get("metadata")
    return causes + (_metadata(metadata, f"{path}.metadata") if isinstance(metadata, dict) else [])


def _api_version(value: Any, path: str) -> list[Cause]:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    return [invalid(path, value, f"unexpected GroupVersion string: {value}")] if value.count("/") > 1 else []


def _kind(value: Any, path: str) -> list[Cause]:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    faults = dns1035_faults(value.lower())
    return [invalid(path, value, MIXED + ",".join(faults))] if faults else []


def _metadata(metadata: Object, path: str) -> list[Cause]:
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
    causes = [invalid(f"{path}.name", name, fault) for fault in _name_faults(name)]
    if namespace and (faults := label_faults(namespace)):
        causes.append(invalid(f"{path}.namespace", namespace, ",".join(faults)))
    finalizers = finalizer_name_causes(metadata.get("finalizers") or (), f"{path}.finalizers")
    return causes + common_causes(metadata, path) + finalizers


def _name_faults(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]
