"""Strategies: hooks of the write path for each kind of object, and strategies that are imported when first used."""

import importlib
from collections.abc import Callable, Collection
from typing import Any, cast

from protocols.kinds.check.causes import Cause
from protocols.kinds.check.table import Check, Struct, causes_of, changed_causes
from protocols.kinds.check.values import without_stored
from protocols.kube.meta import Object

METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
"""The metadata of a stored object that its clients change: the newer kinds leave it to the main endpoint."""


class Strategy:
    """Hooks for a plain object with a spec and no status. They change the object in place and never do I/O.

    Order on create: default, prepare_create, validate_create; on update: default, prepare_update (or prepare_status),
    validate_update (or validate_status).
    """

    gate: Callable[[str], bool] = staticmethod(lambda name: True)
    """Return True if a feature gate is on. Set when the API server starts."""
    has_status: bool = False
    """The status is written only through the status subresource."""
    status_keeps: tuple[str, ...] = ()
    """Fields of metadata that a write of the status leaves as they are."""
    untracked: tuple[str, ...] = ()
    """Fields that the main endpoint never changes after creation: their writers own nothing there."""
    untracked_status: tuple[str, ...] = ()
    """Fields of the status that another subresource writes: their writers own nothing by the status endpoint."""
    parts: tuple[str, ...] = ()
    """Names of subresources that change a part of the spec."""
    has_generation: bool = False
    """metadata.generation counts changes of the spec."""
    propagation: str = ""
    """Propagation policy of deletions whose options name none: Orphan, or empty for Background."""
    unasked_warning: str = ""
    """Warning for a deletion whose options name no propagation policy."""
    rules: Check = Struct()
    """Checks of a whole object, for its creation and for each update."""
    immutable: tuple[str, ...] = ()
    """Paths of the fields that no update changes, such as `spec.selector`."""
    ratcheted: str = ""
    """Path below which an update may keep what is wrong with the stored object: its rules may be newer than it."""
    status_rules: Check = Struct()
    """Checks of a whole object, for a write of its status."""

    def default(self, obj: Object) -> None:
        """Set the defaults of absent fields."""

    def default_status(self, obj: Object) -> None:
        """Set the defaults of absent fields of the status, for a write of it."""

    def prepare_create(self, obj: Object) -> None:
        if self.has_status:
            obj.pop("status", None)

    def prepare_update(self, new: Object, old: Object) -> None:
        if self.has_status:
            restore(new, old, "status")

    def prepare_status(self, new: Object, old: Object) -> None:
        """Restore everything except the status and metadata, of which `status_keeps` are restored."""
        restore_all_but(new, old, "status", "metadata")
        restore(new["metadata"], old["metadata"], *self.status_keeps)

    def part(self, subresource: str, new: Object, old: Object) -> list[Cause]:
        """Apply a subresource of `parts`: restore everything else and return what is wrong."""
        raise NotImplementedError(subresource)

    def prepare_finalize(self, new: Object, old: Object) -> None:
        """Apply the finalize subresource, which only namespaces have."""
        restore_all_but(new, old)

    def validate_finalize(self, new: Object) -> list[Cause]:
        """Check an object after its finalize subresource was applied."""
        return self.validate_create(new)

    def validate_create(self, obj: Object) -> list[Cause]:
        return causes_of(self.rules, "", obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) + changed_causes(new, old, *self.immutable)

    def update_causes(self, new: Object, old: Object) -> list[Cause]:
        """Return the causes of `validate_update` without those that the stored object may keep."""
        return without_stored(self.validate_update(new, old), lambda: self.validate_create(old), self.ratcheted)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return causes_of(self.status_rules, "", new)

    def allocate(self, obj: Object, old: Object | None, taken: Collection[str] = ()) -> Object:
        """Return a valid object with the values that the server allocates, for kinds that reserve keys.

        `taken` are keys that others hold, from failed attempts of the same request.
        Raises AllocationInvalid, RangeFull.
        """
        return obj

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Return warnings for the author of a stored object; `old` is None for a new one."""
        return []

    def check_namespace(self, obj: Object, namespace: Object) -> list[Cause]:
        """Return what is wrong with a new object in this namespace."""
        return []

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Return True if a change increases metadata.generation, for kinds that have it."""
        return bool(new.get("spec") != old.get("spec"))

    def protected(self, obj: Object) -> str:
        """Return why an object may not be deleted; empty if it may."""
        return ""

    def prepare_delete(self, obj: Object) -> None:
        """Change an object before it is deleted or marked as deleted."""

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """Return the seconds from the delete request until the object is removed; 0 means at once."""
        return 0


def restore(new: Object, old: Object, *keys: str) -> None:
    """Restore fields that a request may not change."""
    for key in keys:
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)


def restore_all_but(new: Object, old: Object, *kept: str) -> None:
    """Restore every field that a request may not change."""
    restore(new, old, *((set(new) | set(old)) - set(kept)))


class _Deferred:
    """Stand for a strategy until its first object is written: a kind that nobody uses costs no memory for it.

    Flags and the gate are set without an import.
    """

    def __init__(self, module: str, name: str, flags: dict[str, Any]) -> None:
        self.__dict__.update(flags)
        self._module, self._name = module, name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        strategy = self.__dict__.get("_strategy") or self._load()
        value = self.__dict__[attribute] = getattr(strategy, attribute)
        return value

    def _load(self) -> Strategy:
        strategy: Strategy = getattr(importlib.import_module(self._module), self._name)()
        if gate := self.__dict__.get("gate"):
            strategy.gate = gate
        self.__dict__["_strategy"] = strategy
        return strategy


def deferred(module: str, name: str, **flags: Any) -> Strategy:
    """Return the strategy `name` of `module`. `flags` are those attributes that differ from Strategy's.

    Attributes that reads and discovery need must be among them, or the first read imports the module.
    """
    none: dict[str, Any] = dict.fromkeys(("untracked", "untracked_status", "parts"), ())
    defaults = {**none, "has_status": False, "has_generation": False, "propagation": "", "unasked_warning": ""}
    return cast(Strategy, _Deferred(module, name, {**defaults, **flags}))
