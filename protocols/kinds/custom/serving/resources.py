"""Build the resource of each served version of a definition, and convert stored objects to that version."""

from collections.abc import Callable
from contextlib import suppress

from protocols.kinds.custom.definitions.definition import Definition, Version
from protocols.kinds.custom.printing.columns import columns_of, format_value
from protocols.kinds.custom.schema.coercion import MOST_SHOWN, drop_nulls, fill, pruned
from protocols.kinds.custom.serving.kind import Kind, priority
from protocols.kinds.custom.serving.strategy import CustomStrategy, value_at
from protocols.kinds.served.row import STATUS_VERBS, Converter, Served, Subresource
from protocols.kube.errors import DefaultsTooLarge
from protocols.kube.meta import Object

HEAD = 256


class CustomConverter(Converter):
    """Converts to one version.

    While the definition has its first generation, objects in the storage version need no conversion: they were written
    under the current schema.
    """

    def __init__(self, kind: Kind) -> None:
        definition = kind.definition
        self._kind = kind
        self._storage = f"{definition.group}/{definition.storage}"
        self._stored_head = f'"apiVersion":"{self._storage}"'.encode()
        self.changes = definition.generation != 1 or not kind.version.storage

    def to_version(self, obj: Object) -> Object:
        obj["apiVersion"] = self._kind.api_version
        pruned(obj, self._kind.node)
        drop_nulls(obj, self._kind.node)
        if self._kind.has_defaults:
            with suppress(DefaultsTooLarge):  # the rest stays missing: an error would take the whole list away
                fill(obj, self._kind.node, MOST_SHOWN)
        return obj

    def to_stored(self, obj: Object) -> Object:
        return {**obj, "apiVersion": self._storage}

    def is_outdated(self, raw: bytes) -> bool:
        return self._stored_head not in raw[:HEAD]


def resources_of(definition: Definition) -> list[Served]:
    """Return the rows of the served versions, the preferred one first."""
    versions = sorted((v for v in definition.versions if v.served), key=lambda v: priority(v.name))
    return [_row(definition, version) for version in versions]


def _row(definition: Definition, version: Version) -> Served:
    kind, names = Kind(definition, version), definition.names
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
        converter=CustomConverter(kind),
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
