"""Map apiVersion and kind to resources: built-in ones and those of established CustomResourceDefinitions. Pure."""

from collections.abc import Iterator

from protocols.kinds.table import BY_KIND, Resource
from protocols.kube.custom import served, versions
from protocols.kube.meta import Object, fields_of, name_of


class Kinds:
    """Resources by apiVersion and kind."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], Resource] = {}
        """Custom resources by apiVersion and kind; all versions of one map to the same resource."""
        self._by_name: dict[str, Resource] = {}
        """Custom resources by the name of their definition."""

    def find(self, api_version: str, kind: str) -> Resource | None:
        return BY_KIND.get((api_version, kind)) or self._by_kind.get((api_version, kind))

    def custom(self) -> Iterator[Resource]:
        yield from self._by_name.values()

    def put(self, definition: Object) -> Resource | None:
        """Add a definition; return its resource if it is new. A resource that is no longer served is removed."""
        name, resource = name_of(definition), served(definition)
        held = self._by_name.get(name)
        if held is not None and held != resource:
            self.remove(name)
            held = None
        if resource is None:
            return None
        kept = held or resource
        self._by_name[name] = kept
        for version in versions(definition):
            if version.get("served"):
                self._by_kind[f"{kept.group}/{version['name']}", kept.kind] = kept
        return None if held is not None else resource

    def remove(self, name: str) -> Resource | None:
        resource = self._by_name.pop(name, None)
        self._by_kind = {key: known for key, known in self._by_kind.items() if known is not resource}
        return resource

    def known(self, name: str) -> bool:
        return name in self._by_name


def trim_definition(definition: Object) -> Object:
    """Return the definition without its schemas, which may be large."""
    spec = definition.get("spec") or {}
    kept = [{key: version.get(key) for key in ("name", "served", "storage")} for version in versions(definition)]
    metadata = definition.get("metadata") or {}
    return {
        "metadata": fields_of(metadata, ("name", "uid", "resourceVersion")),
        "spec": {**{key: spec.get(key) for key in ("group", "scope", "names")}, "versions": kept},
        "status": {"conditions": (definition.get("status") or {}).get("conditions")},
    }
