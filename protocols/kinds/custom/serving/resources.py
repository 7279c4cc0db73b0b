"""Build the resource of each served version of a definition, and convert stored objects to that version."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from protocols.kinds.custom.definitions.definition import Definition, Version
from protocols.kinds.custom.printing.columns import columns_of, format_value
from protocols.kinds.custom.schema.coercion import MOST_SHOWN, drop_nulls, fill, pruned
from protocols.kinds.custom.serving.kind import Kind, priority
from protocols.kinds.custom.serving.strategy import CustomStrategy, value_at
from protocols.kinds.served.row import STATUS_VERBS, Converter, Served, Subresource
from protocols.kube.errors import DefaultsTooLarge
from protocols.kube.meta import Object
from protocols.kube.objects import fresh_copy

HEAD = 256


class CustomConverter(Converter):
    """Converts to one version, of all `kinds` of a definition by version.

    As upstream, an object has the fields of the version it is stored in and of the one that is read, and the defaults
    of the former. While the definition has its first generation, objects in the storage version need no conversion:
    they were written under the current schema.
    """

    def __init__(self, kind: Kind, kinds: Mapping[str, Kind]) -> None:
        definition = kind.definition
        self._kind, self._kinds = kind, kinds
        self._storage = kinds[definition.storage]
        self._stored_head = f'"apiVersion":"{self._storage.api_version}"'.encode()
        self.changes = definition.generation != 1 or not kind.version.storage

    def to_version(self, obj: Object) -> Object:
        stored = self._kinds.get(str(obj.get("apiVersion")).rpartition("/")[2], self._kind)
        _fit(obj, stored)
        if stored is not self._kind:
            pruned(obj, self._kind.node)
            drop_nulls(obj, self._kind.node)
        obj["apiVersion"] = self._kind.api_version
        return obj

    def to_stored(self, obj: Object) -> Object:
        stored = {**obj, "apiVersion": self._storage.api_version}
        if self._storage is not self._kind:
            stored = fresh_copy(stored)
            _fit(stored, self._storage)
        return stored

    def is_outdated(self, raw: bytes) -> bool:
        return self._stored_head not in raw[:HEAD]


def _fit(obj: Object, kind: Kind) -> None:
    """Remove in place what a version does not have, and set its defaults."""
    pruned(obj, kind.node)
    drop_nulls(obj, kind.node)
    if kind.has_defaults:
        with suppress(DefaultsTooLarge):  # the rest stays missing: an error would take the whole list away
            fill(obj, kind.node, MOST_SHOWN)


def resources_of(definition: Definition) -> list[Served]:
    """Return the rows of the served versions, the preferred one first."""
    kinds = {version.name: Kind(definition, version) for version in definition.versions}
    versions = sorted((v for v in definition.versions if v.served), key=lambda v: priority(v.name))
    return [_row(definition, version, kinds) for version in versions]


def _row(definition: Definition, version: Version, kinds: Mapping[str, Kind]) -> Served:
    kind, names = kinds[version.name], definition.names
    return Served(
        group=definition.group,
        version=version.name,
        plural=names.plural,
        kind=names.kind,
        namespaced=definition.namespaced,
        strategy=CustomStrategy(kind),
        singular_name=names.singular,
        columns=columns_of(version.columns),
        etcd_prefix=f"{definition.group}/{names.plural}",
        short_names=names.short,
        categories=names.categories,
        subresources=_subresources(definition, version),
        fields={path: _getter(path) for path in version.selectable},
        returns_object=False,
        versioned_update=True,
        converter=CustomConverter(kind, kinds),
        custom=kind,
        list_name=names.list_kind,
    )


def _getter(path: str) -> Callable[[Object], str]:
    def get(obj: Object) -> str:
        value = value_at(obj, path)
        return "" if value is None else format_value(value)

    return get


def _subresources(definition: Definition, version: Version) -> tuple[Subresource, ...]:
    subresources = []
    if version.status:
        subresources.append(Subresource("status", STATUS_VERBS, definition.names.kind, definition.group, version.name))
    if version.scale:
        subresources.append(Subresource("scale", STATUS_VERBS, "Scale", "autoscaling", "v1"))
    return tuple(subresources)
