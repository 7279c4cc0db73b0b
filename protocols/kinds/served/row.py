"""Served resources, and the table of them."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from protocols.kinds.served.strategy import Strategy
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.shapes.shape import Shape
from protocols.kinds.table import Resource
from protocols.kube.meta import Object


class Converter:
    """Convert between stored objects and one version of the API. The default changes nothing.

    Several versions may share one set of stored objects. Everywhere in the code a `Stored` is in the stored form;
    `to_version` makes of it what clients of that version see.
    """

    changes: bool = False
    """False if `to_version` always returns its argument."""

    def to_version(self, obj: Object) -> Object:
        """Convert a stored object to this version. The caller gives its own copy away."""
        return obj

    def to_stored(self, obj: Object) -> Object:
        """Convert an object of this version to the stored form."""
        return obj

    def is_outdated(self, raw: bytes) -> bool:
        """Return True if a write without changes must still be stored, because the stored form has changed."""
        return False


IDENTITY = Converter()


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`, computed by `cell`. One of priority 1 appears only with `-o wide`."""

    name: str
    cell: Callable[[Object], Any]
    priority: int = 0
    type: str = "string"
    format: str = ""
    description: str = ""


class Subresource(msgspec.Struct, frozen=True):
    """A path below an object. Group, version and kind are those of its body."""

    name: str
    verbs: tuple[str, ...]
    kind: str
    group: str = ""
    version: str = ""


class Served(Resource, frozen=True, kw_only=True, eq=False):
    """Everything the API server knows about one version of one kind: a row of its table.

    A row equals only itself, so that caches can use it as a key.
    """

    strategy: Strategy
    columns: tuple[Column, ...]
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    fields: Mapping[str, Callable[[Object], str]] = msgspec.field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace."""
    returns_object: bool = False
    """DELETE returns the object instead of a Status."""
    create_on_update: bool = False
    """PUT creates a missing object."""
    versioned_update: bool = False
    """PUT must carry a resourceVersion."""
    collects_garbage: bool = True
    """False if the garbage collector does not follow the kind, so that propagation policies set no finalizers."""
    ttl: int = 0
    """Seconds after its last write until an object expires; 0 means never."""
    free_names: bool = False
    """Names may contain everything a path segment can, such as colons."""
    virtual: bool = False
    """POST returns an answer and stores nothing, as of a SubjectAccessReview."""
    stored_as: str = ""
    """Full name of the resource that stores the objects, if it is not this one."""
    converter: Converter = IDENTITY
    """Converts stored objects to this version."""
    reserves: Callable[[Object], dict[str, bytes]] | None = None
    """Keys and values of the records that an object holds: they are written, and removed, with it."""
    custom: "CustomKind | None" = None
    """Set for custom resources; None for built-in ones."""
    row_conditions: Mapping[str, Object] = msgspec.field(default_factory=dict)
    """Conditions of a row in a table, by the object's phase."""
    scale_paths: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Field paths of a built-in kind's scale subresource, by the names that definitions use."""
    deprecated: str = ""
    """Releases of Kubernetes that deprecate and remove a built-in kind's version, and what replaces it."""

    @property
    def warning(self) -> str:
        """Sent with each response of the resource, as its version is deprecated; empty if it is not."""
        if self.custom is not None:
            return self.custom.warning
        return f"{self.api_version} {self.kind} is deprecated in {self.deprecated}" if self.deprecated else ""

    @functools.cached_property
    def shape(self) -> Shape | None:
        """The schema of its objects; None if it is unknown."""
        return self.custom.shape if self.custom else kind_shape(self.group, self.version, self.kind)

    @property
    def scale(self) -> Mapping[str, str]:
        """Field paths of the scale subresource; empty without one."""
        return self.custom.scale if self.custom is not None else self.scale_paths

    @functools.cached_property
    def store(self) -> str:
        """The key of the replica that holds its objects."""
        return self.stored_as or self.full_name

    @functools.cached_property
    def gvr(self) -> str:
        """The unique name of the resource, such as `apps/v1/deployments`."""
        return f"{self.api_version}/{self.plural}"

    def key(self, namespace: str, name: str) -> str:
        """Return the storage key of an object below the prefix."""
        return f"{namespace}/{name}" if self.namespaced else name

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)


class CustomKind(Protocol):
    """One version of a custom resource, as its definition describes it."""

    terminating: bool
    """The definition is being deleted: no new objects are accepted."""
    warning: str
    """Deprecation warning for every client of this version; empty for none."""
    scale: Mapping[str, str]
    """Field paths of the scale subresource: specReplicasPath, statusReplicasPath, labelSelectorPath."""

    @property
    def shape(self) -> Shape: ...

    def clean(self, obj: Object) -> list[str]:
        """Prune unknown fields and return their paths. Raises WrongType for invalid metadata."""

    def clean_part(self, obj: Object, field: str) -> list[str]:
        """Prune one top-level field of an object."""

    def component(self) -> tuple[str, Object]:
        """Return name and schema of the OpenAPI component."""


class Table:
    """All served resources by group, version and plural: the built-in ones first, then the custom ones."""

    def __init__(self, rows: Iterable[Served]) -> None:
        self.built_in = tuple(rows)
        self.stored = tuple(row for row in self.built_in if not row.virtual and not row.stored_as)
        """One resource for each kind of stored object."""
        self.replace(())

    def replace(self, custom: Iterable[Served]) -> None:
        """Replace the custom resources."""
        self.custom = tuple(custom)
        rows = (*self.built_in, *self.custom)
        self._by_plural = {row.plural: row for row in reversed(rows)}
        self._by_path = {(row.group, row.version, row.plural): row for row in reversed(rows)}
        by_group: dict[str, dict[str, list[Served]]] = {}
        for row in rows:
            by_group.setdefault(row.group, {}).setdefault(row.version, []).append(row)
        self._by_group = by_group  # complete, since threads read it
        self.rows = rows  # last, since a thread that finds them finds all else of them

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Served | None:
        """Return the stored resource of an apiVersion and kind."""
        return next(
            (row for row in self.rows if row.kind == kind and row.api_version == api_version and not row.virtual), None
        )

    def of(self, plural: str) -> Served:
        """Return the resource with a plural that is known to be unique."""
        return self._by_plural[plural]

    def versions(self) -> dict[str, list[str]]:
        """Return versions by group, the preferred one first, groups in the order of the table."""
        return {group: list(versions) for group, versions in self._by_group.items()}

    def in_version(self, group: str, version: str) -> list[Served]:
        return self._by_group.get(group, {}).get(version, [])
