"""Scopes of watches, the transitions they see, and the index that finds the scopes of a change."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Generic, TypeVar

import msgspec

from actors.apiserver.api.encoding.negotiate import Form
from actors.apiserver.api.request.selection import Selection
from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.window import Change
from protocols.kube.meta import Object
from protocols.messages.objects import ADDED, DELETED, MODIFIED


class Scope(msgspec.Struct, frozen=True):
    """Namespace, selectors and output form of a watch. Watches with equal scopes share a channel."""

    namespace: str
    selection: Selection
    form: Form

    def covers(self, key: str) -> bool:
        """Return True if the namespace and name of `key` are in the scope. Selectors may still exclude it."""
        name = self.selection.name
        if self.namespace and not key.startswith(f"{self.namespace}/"):
            return False
        return not name or key.rpartition("/")[2] == name


def transition(change: Change, wanted: Selection) -> tuple[str, Stored] | None:
    """Return (event type, object to send) of a change; None if a watch with these selectors does not see it.

    An object that begins to match is ADDED, one that no longer matches is DELETED at the revision of the change.
    """
    before, after = change.before, change.after
    was = before is not None and wanted.matches(before)
    now = after is not None and wanted.matches(after)
    if now and after is not None:
        return (MODIFIED if was else ADDED), after
    if was and before is not None:
        return DELETED, before.at(change.rv)
    return None


NODE = "spec.nodeName"
Place = tuple[str, str, str | None]
"""Namespace and name, empty for any; node, None for any. An empty node is a value: the scheduler selects it."""
T = TypeVar("T")
_ANY = (None,)


class Index(Generic[T]):
    """Find the scopes that a change may concern by namespace, name and node, without asking each scope. Pure.

    A change looks up at most twelve places: its name or any, its namespace or all, its nodes or any.
    """

    def __init__(self, node_of: Callable[[Object], str] | None) -> None:
        """`node_of` returns the node of an object. It is None for resources without one."""
        self._node_of = node_of
        self._places: dict[Place, set[T]] = {}
        self._by_node = 0
        """Number of places with a node. While it is 0, no object is decoded for its node."""

    def add(self, place: Place, item: T) -> None:
        if place not in self._places:
            self._places[place] = set()
            self._by_node += place[2] is not None
        self._places[place].add(item)

    def remove(self, place: Place, item: T) -> None:
        items = self._places.get(place, set())
        items.discard(item)
        if not items and self._places.pop(place, None) is not None:
            self._by_node -= place[2] is not None

    def place_of(self, namespace: str, selection: Selection) -> Place:
        node = dict(selection.equals).get(NODE) if self._node_of else None
        return namespace, selection.name, node

    def concerned(self, change: Change) -> Iterator[T]:
        """Yield each item that the change may concern once; its selectors decide."""
        if not self._places:
            return
        namespace, _, name = change.key.rpartition("/")
        for place in product(("", namespace) if namespace else ("",), ("", name), self._nodes(change)):
            concerned = self._places.get(place)
            if concerned is not None:
                yield from tuple(concerned)

    def _nodes(self, change: Change) -> Iterable[str | None]:
        if not self._by_node or not self._node_of:
            return _ANY
        return {None, *(self._node_of(stored.obj) for stored in (change.before, change.after) if stored is not None)}
