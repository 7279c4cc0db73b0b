"""The objects of a resource at an earlier revision, from a replica's objects and the changes in its window. Pure."""

from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.objects import Objects
from actors.apiserver.replica.window import Window


def objects_at(objects: Objects, window: Window, rv: int, prefix: str, start: str = "") -> list[Stored] | None:
    """Return the objects as they were at revision `rv`, in key order; None if the window begins later.

    `rv` must not be ahead of the objects.
    """
    if rv < window.floor:
        return None
    undone: dict[str, Stored | None] = {}
    for change in reversed(window.since(rv)):
        if change.key.startswith(prefix) and change.key >= start:
            undone[change.key] = change.before
    held = [stored for stored in objects.below(prefix, start) if stored.key not in undone]
    restored = [stored for stored in undone.values() if stored is not None]
    return sorted((*held, *restored), key=lambda stored: stored.key) if restored else held
