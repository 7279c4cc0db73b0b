"""The resource that a CustomResourceDefinition declares, for processes that store, follow or collect its objects."""

from collections.abc import Iterator, Mapping
from typing import Any

from protocols.kinds.table import Resource


def declared(definition: Mapping[str, Any]) -> Resource | None:
    """Return the resource under its storage version, served or not; None for an invalid definition.

    Its objects are stored below `/registry/<group>/<plural>/`, in the store of the definitions.
    """
    spec = definition.get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(names, dict):
        return None
    group, plural, kind = spec.get("group"), names.get("plural"), names.get("kind")
    if not all(isinstance(text, str) and text and "/" not in text for text in (group, plural, kind)):
        return None
    if "." not in str(group):
        return None
    storing = next((version["name"] for version in versions(definition) if version.get("storage")), "")
    return Resource(
        str(group), storing, str(plural), str(kind), spec.get("scope") == "Namespaced", etcd_prefix=f"{group}/{plural}"
    )


def versions(definition: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the entries of spec.versions that have a name."""
    entries = (definition.get("spec") or {}).get("versions")
    for version in entries if isinstance(entries, list) else ():
        if isinstance(version, dict) and isinstance(version.get("name"), str):
            yield version


def condition(definition: Mapping[str, Any], kind: str) -> str:
    """Return the status of a condition; empty if it is not there."""
    conditions = (definition.get("status") or {}).get("conditions")
    for entry in conditions if isinstance(conditions, list) else ():
        if isinstance(entry, dict) and entry.get("type") == kind:
            return str(entry.get("status") or "")
    return ""


def served(definition: Mapping[str, Any]) -> Resource | None:
    """Return the resource if clients can reach its objects: established, with a served version.

    It names the storage version where that is served, else the first served one. Objects stay reachable while the
    definition is being deleted.
    """
    resource = declared(definition)
    names = [version["name"] for version in versions(definition) if version.get("served")]
    if resource is None or not names or condition(definition, "Established") != "True":
        return None
    version = resource.version if resource.version in names else names[0]
    return Resource(resource.group, version, resource.plural, resource.kind, resource.namespaced, resource.etcd_prefix)
