"""Find the objects of an owner in an informer's store, and those without one."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from actors.controllers.workloads.common.pods import ControllerOwner, owner_of
from protocols.kube.meta import Object, key_of, namespace_of

Changed = Callable[[Object | None, Object], None]


class OwnerIndex:
    """An informer's handler. `changed` gets the object as it was, None for a new one, and as it is.

    `gone` gets the last state of a deleted one.
    """

    def __init__(self, changed: Changed, gone: Callable[[Object], None]) -> None:
        self._changed, self._gone = changed, gone
        self._owned: defaultdict[str, set[str]] = defaultdict(set)
        """Uid of the controlling owner -> keys."""
        self._orphans: defaultdict[str, set[str]] = defaultdict(set)
        """Namespace -> keys of objects without a controlling owner."""
        self.items: Mapping[str, Object] = {}
        """The informer's store, set when the informer exists."""

    def owned(self, uid: str) -> Iterator[Object]:
        yield from self._find(self._owned.get(uid, ()))

    def orphans(self, namespace: str) -> Iterator[Object]:
        yield from self._find(self._orphans.get(namespace, ()))

    def on_add(self, obj: Object) -> None:
        self._put(obj)
        self._changed(None, obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._remove(old)
        self._put(new)
        self._changed(old, new)

    def on_delete(self, obj: Object) -> None:
        self._remove(obj)
        self._gone(obj)

    def _find(self, keys: "set[str] | tuple[()]") -> Iterator[Object]:
        for key in sorted(keys):
            if key in self.items:
                yield self.items[key]

    def _place(self, obj: Object) -> tuple[defaultdict[str, set[str]], str]:
        owner: ControllerOwner | None = owner_of(obj)
        return (self._owned, owner.uid) if owner is not None else (self._orphans, namespace_of(obj))

    def _put(self, obj: Object) -> None:
        known, place = self._place(obj)
        known[place].add(key_of(obj))

    def _remove(self, obj: Object) -> None:
        known, place = self._place(obj)
        if place in known:
            known[place].discard(key_of(obj))
            if not known[place]:
                del known[place]
