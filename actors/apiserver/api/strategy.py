"""What is special about writing one kind of object; the default is a plain object with `spec` and no status."""

from collections.abc import Callable

from actors.apiserver.api.causes import Cause
from actors.apiserver.api.objects import Obj


class Strategy:
    """Hooks of the write path. They change the object in place and never do I/O.

    Order on create: default, prepare_create, validate_create; on update: default, prepare_update (or prepare_status),
    validate_update (or validate_status).
    """

    gate: Callable[[str], bool] = staticmethod(lambda name: True)
    """Whether a feature gate is on; who serves the kind says so at its start."""
    has_status: bool = False
    """The status is written through the status subresource only."""
    parts: tuple[str, ...] = ()
    """Subresources that change a part of the spec."""
    has_generation: bool = False
    """metadata.generation counts changes of the spec."""

    def default(self, obj: Obj) -> None:
        """Fill what the caller left open."""

    def prepare_create(self, obj: Obj) -> None:
        if self.has_status:
            obj.pop("status", None)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        if self.has_status:
            restore(new, old, "status")

    def prepare_status(self, new: Obj, old: Obj) -> None:
        """Keep everything but the status and harmless metadata."""
        restore_all_but(new, old, "status", "metadata")
        restore(new["metadata"], old["metadata"], "ownerReferences")

    def part(self, subresource: str, new: Obj, old: Obj) -> list[Cause]:
        """One of `parts`: keep everything else, and say what is wrong."""
        raise NotImplementedError(subresource)

    def prepare_finalize(self, new: Obj, old: Obj) -> None:
        """The finalize subresource; only namespaces have one."""
        restore_all_but(new, old)

    def validate_create(self, obj: Obj) -> list[Cause]:
        return []

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        return self.validate_create(new)

    def validate_status(self, new: Obj, old: Obj) -> list[Cause]:
        return []

    def warnings(self, new: Obj, old: Obj | None) -> list[str]:
        """What the author of a stored object is told; `old` is None for a new one."""
        return []

    def check_namespace(self, obj: Obj, namespace: Obj) -> list[Cause]:
        """What is wrong with a new object because of the namespace it goes to."""
        return []

    def bumps_generation(self, new: Obj, old: Obj) -> bool:
        """Whether this change makes a new generation, if there are generations."""
        return bool(new.get("spec") != old.get("spec"))

    def prepare_delete(self, obj: Obj) -> None:
        """Before the object is deleted, or marked as deleted."""

    def grace_seconds(self, obj: Obj, asked: int | None) -> int:
        """Seconds between the delete request and the end of the object; 0 = at once."""
        return 0


def restore(new: Obj, old: Obj, *keys: str) -> None:
    """Put back what this endpoint may not change."""
    for key in keys:
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)


def restore_all_but(new: Obj, old: Obj, *kept: str) -> None:
    restore(new, old, *((set(new) | set(old)) - set(kept)))
