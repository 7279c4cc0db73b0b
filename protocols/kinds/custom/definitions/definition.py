"""The parsed form of a CustomResourceDefinition."""

from collections.abc import Mapping
from typing import Any

import msgspec

from protocols.kube.custom import condition
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

Raw = dict[str, Any]
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that holds a deleted definition until its objects are deleted."""


class Names(msgspec.Struct, frozen=True):
    """Names of a custom resource; empty where none is given."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class Version(msgspec.Struct, frozen=True):
    """One version of a definition, with its schema still as JSON."""

    name: str
    served: bool = False
    storage: bool = False
    schema: Raw = msgspec.field(default_factory=dict)
    status: bool = False
    scale: Mapping[str, str] = msgspec.field(default_factory=dict)
    columns: tuple[Object, ...] = ()
    selectable: tuple[str, ...] = ()
    deprecated: bool = False
    warning: str = ""


class Definition(msgspec.Struct, frozen=True):
    """A CustomResourceDefinition as serving needs it, read from the stored object."""

    name: str
    uid: str
    generation: int
    group: str
    namespaced: bool
    names: Names
    """The accepted names if the definition is established, else the requested ones."""
    versions: tuple[Version, ...]
    established: bool
    terminating: bool

    @property
    def storage(self) -> str:
        return next((version.name for version in self.versions if version.storage), "")


def read_names(names: Any) -> Names:
    """Read spec.names or status.acceptedNames; anything else gives empty names."""
    return Names(
        plural=text(names, "plural"),
        singular=text(names, "singular"),
        kind=text(names, "kind"),
        list_kind=text(names, "listKind"),
        short=tuple(map(str, at(names, "shortNames") or ())),
        categories=tuple(map(str, at(names, "categories") or ())),
    )


def written_names(names: Names) -> Object:
    """Return names as the API writes them, without empty ones."""
    fields: Object = {
        "plural": names.plural,
        "singular": names.singular,
        "kind": names.kind,
        "listKind": names.list_kind,
    }
    fields |= {"shortNames": list(names.short), "categories": list(names.categories)}
    return {key: value for key, value in fields.items() if value}


def _read_version(raw: Object) -> Version:
    scale = at(raw, "subresources", "scale")
    return Version(
        name=text(raw, "name"),
        served=bool(raw.get("served")),
        storage=bool(raw.get("storage")),
        schema=at(raw, "schema", "openAPIV3Schema") or {},
        status=isinstance(at(raw, "subresources", "status"), dict),
        scale=scale if isinstance(scale, dict) else {},
        columns=tuple(items(raw, "additionalPrinterColumns")),
        selectable=tuple(text(field, "jsonPath").removeprefix(".") for field in items(raw, "selectableFields")),
        deprecated=bool(raw.get("deprecated")),
        warning=text(raw, "deprecationWarning"),
    )


def read_definition(obj: Object) -> Definition:
    """Read a stored definition, which validation has passed."""
    established = condition(obj, "Established") == "True"
    accepted = at(obj, "status", "acceptedNames") if established else at(obj, "spec", "names")
    return Definition(
        name=text(obj, "metadata", "name"),
        uid=text(obj, "metadata", "uid"),
        generation=at(obj, "metadata", "generation") or 0,
        group=text(obj, "spec", "group"),
        namespaced=text(obj, "spec", "scope") == "Namespaced",
        names=read_names(accepted),
        versions=tuple(_read_version(version) for version in items(obj, "spec", "versions")),
        established=established,
        terminating=bool(at(obj, "metadata", "deletionTimestamp")),
    )
