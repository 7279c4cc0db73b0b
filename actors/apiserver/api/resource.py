"""Served resources, and the table of them."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.schemas.registry import kind_shape
from actors.apiserver.api.schemas.shape import Shape
from actors.apiserver.api.stored import Stored
from actors.apiserver.api.strategy import Strategy


class Converter:
    """The default: objects look as they are stored."""

    changes: ClassVar[bool] = False
    """False: view() gives its argument back, always."""

    def view(self, stored: Stored) -> Stored:
        return stored

    def to_stored(self, obj: Obj) -> Obj:
        """An object of this version as it is to be stored."""
        return obj

    def outdated(self, stored: Stored) -> bool:
        """Whether a write that changes nothing must still be stored, for the form of the store has changed."""
        return False


class CachedConverter(Converter):
    """Makes each view once, for as long as nobody asks for another."""

    changes: ClassVar[bool] = True

    def view(self, stored: Stored) -> Stored:
        held = stored.view
        if held is None or held[0] is not self:
            made = self.make(stored)
            held = stored.view = (self, None if made is stored else made)
        return held[1] or stored

    def make(self, stored: Stored) -> Stored:
        return stored


IDENTITY = Converter()


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


class Column(msgspec.Struct, frozen=True):
    """One column of `kubectl get`; `cell` computes it from the object, `priority` 1 shows it only with -o wide."""

    name: str
    cell: Callable[[Obj], Any]
    priority: int = 0
    type: str = "string"
    format: str = ""
    description: str = ""


class Subresource(msgspec.Struct, frozen=True):
    """A path below an object; group, version and kind are those of its body."""

    name: str
    verbs: tuple[str, ...]
    kind: str
    group: str = ""
    version: str = ""


class Resource(msgspec.Struct, frozen=True, dict=True, eq=False):
    """All the API server knows of one kind of object: the one row a new resource needs. Equal to itself alone, so that
    what is made of it can be remembered by it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    strategy: Strategy
    singular: str
    columns: tuple[Column, ...]
    prefix: str = ""
    """Storage prefix below /registry/; empty = the plural."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    fields: Mapping[str, Callable[[Obj], str]] = msgspec.field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace."""
    returns_object: bool = False
    """DELETE answers with the object; otherwise with a Status."""
    create_on_update: bool = False
    """PUT of a missing object creates it."""
    versioned_update: bool = False
    """PUT must carry a resourceVersion."""
    ttl: int = 0
    """Seconds an object lives after its last write; 0 = for ever."""
    free_names: bool = False
    """Names may hold anything a path segment can, colons above all."""
    virtual: bool = False
    """A question, not an object: POST answers, nothing is stored."""
    stored_as: str = ""
    """Full name of the row whose objects these are, under another version or group; empty = its own."""
    converter: Converter = IDENTITY
    """How stored objects look in this version."""
    list_kind: str = ""
    """Kind of a list of them; empty = the kind and `List`."""
    custom: "CustomKind | None" = None
    """What a CustomResourceDefinition says of it; None = built in."""

    @functools.cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @functools.cached_property
    def full_name(self) -> str:
        """`pods`, `leases.coordination.k8s.io`: how error texts name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @functools.cached_property
    def listing(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @functools.cached_property
    def shape(self) -> Shape | None:
        """Of its objects; None = nothing is known of them."""
        return self.custom.shape if self.custom else kind_shape(self.group, self.version, self.kind)

    @functools.cached_property
    def store(self) -> str:
        """Key of the replica that holds its objects."""
        return self.stored_as or self.full_name

    @functools.cached_property
    def path(self) -> str:
        """Tells rows apart: `apps/v1/deployments`."""
        return f"{self.api_version}/{self.plural}"

    @functools.cached_property
    def storage_prefix(self) -> str:
        return f"/registry/{self.prefix or self.plural}/"

    def key(self, namespace: str, name: str) -> str:
        """Of an object, below the prefix."""
        return f"{namespace}/{name}" if self.namespaced else name

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)


class CustomKind(Protocol):
    """One version of a custom resource."""

    terminating: bool
    """Its definition is being deleted: nothing new is let in."""
    warning: str
    """What everybody is told who uses this version; empty = nothing."""
    scale: Mapping[str, str]
    """Where the scale subresource finds its fields: specReplicasPath, statusReplicasPath, labelSelectorPath."""

    @property
    def shape(self) -> Shape: ...

    def clean(self, obj: Obj) -> list[str]:
        """Take out what the schema does not have; the paths of what went. Raises WrongType (of metadata)."""

    def clean_part(self, obj: Obj, field: str) -> list[str]:
        """The same for one top-level field of it."""

    def component(self) -> tuple[str, Obj]:
        """Name and schema in OpenAPI."""


class Table:
    """Rows by (group, version, plural). The ones it is made of stay first; custom ones come and go behind them."""

    def __init__(self, rows: Iterable[Resource]) -> None:
        self.built_in = tuple(rows)
        self.stored = tuple(row for row in self.built_in if not row.virtual and not row.stored_as)
        """One for each kind of stored object."""
        self.replace(())

    def replace(self, custom: Iterable[Resource]) -> None:
        """The custom rows from now on."""
        self.custom = tuple(custom)
        self.rows = (*self.built_in, *self.custom)
        self._by_plural = {row.plural: row for row in reversed(self.rows)}
        self._by_path = {(row.group, row.version, row.plural): row for row in reversed(self.rows)}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def of(self, plural: str) -> Resource:
        """The row of a plural; for our own use, where the plural is known to be unique."""
        return self._by_plural[plural]

    def versions(self) -> dict[str, list[str]]:
        """Versions by group, preferred first, groups in table order."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            versions = found.setdefault(row.group, [])
            if row.version not in versions:
                versions.append(row.version)
        return found

    def in_version(self, group: str, version: str) -> list[Resource]:
        return [row for row in self.rows if (row.group, row.version) == (group, version)]
