"""Scopes of watches, the transitions they see, and the index that finds the scopes of a change."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Generic, TypeVar

import msgspec

from actors.apiserver.api.encoding.negotiate import Form
from actors.apiserver.api.objects import Obj
from actors.apiserver.api.selection import Selection
from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.window import Change
from protocols.messages.objects import ADDED, DELETED, MODIFIED


class Scope(msgspec.Struct, frozen=True):
    """What a watch looks at; equal scopes share a channel."""

    namespace: str
    selection: Selection
    form: Form

    def covers(self, key: str) -> bool:
        """Whether objects under `key` can be of interest at all."""
        name = self.selection.name
        if self.namespace and not key.startswith(f"{self.namespace}/"):
            return False
        return not name or key.rpartition("/")[2] == name


def transition(change: Change, wanted: Selection) -> tuple[str, Stored] | None:
    """(event type, object to send), None when the watch sees nothing. What leaves carries this change's revision."""
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
"""Namespace and name, empty for any; node, None for any (an empty node is a value: the scheduler looks for it)."""
T = TypeVar("T")
_ANY = (None,)


class Index(Generic[T]):
    """Pure. A change visits at most twelve places: its name or any, its namespace or all, its nodes or any."""

    def __init__(self, node_of: Callable[[Obj], str] | None) -> None:
        """`node_of` reads the node an object belongs to; None for resources that have none."""
        self._node_of = node_of
        self._places: dict[Place, set[T]] = {}
        self._by_node = 0
        """Places with a node: while there are none, no object is decoded to learn its own."""

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
        """Each item once, whatever the change was and is: it is for them to judge what they see of it."""
        if not self._places:
            return
        namespace, _, name = change.key.rpartition("/")
        for place in product(("", namespace) if namespace else ("",), ("", name), self._nodes(change)):
            found = self._places.get(place)
            if found is not None:
                yield from tuple(found)

    def _nodes(self, change: Change) -> Iterable[str | None]:
        if not self._by_node or not self._node_of:
            return _ANY
        return {None, *(self._node_of(each.obj) for each in (change.before, change.after) if each is not None)}
