"""State that modules keep for their process: each simulated process has its own.

The world swaps the values when another process runs. `undeclared` finds what is missing from the list.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from protocols.cel.worker import asking, client, selections
from protocols.process import files
from protocols.trace import recorder

Fresh = Callable[[], Any]


class Place:
    """One attribute of a module, class or object, and what a new process finds there."""

    __slots__ = ("fresh", "name", "owner")

    def __init__(self, owner: Any, name: str, fresh: Fresh) -> None:
        self.owner, self.name, self.fresh = owner, name, fresh


def nothing() -> None:
    """Return what a global is before its first use."""


def kept(value: Any) -> Fresh:
    """Return a maker of one value, which nobody changes in place."""
    return lambda: value


def places() -> list[Place]:
    """Return the places of `protocols`."""
    return [
        Place(recorder, "_ids", nothing),
        Place(client, "_client", nothing),
        Place(asking.Process, "remote", bool),
        Place(asking.Process, "checks", OrderedDict),
        Place(asking.Process, "simple", nothing),
        Place(selections, "_results", nothing),
        Place(files, "_swept", set),
    ]


class Isolation:
    """Swaps the values of all places."""

    def __init__(self) -> None:
        self._places = places()
        self._last: list[Any] | None = None
        """Memory of the process whose values are in place."""

    def add(self, owner: Any, name: str, fresh: Fresh) -> None:
        """Declare another place; call it before any process runs."""
        getattr(owner, name)
        self._places.append(Place(owner, name, fresh))

    def enter(self, memory: list[Any]) -> None:
        """Put the values of a process in place; `memory` is its list, empty at first."""
        last = self._last
        if last is memory:
            return
        if not memory:
            memory.extend(place.fresh() for place in self._places)
        for index, place in enumerate(self._places):
            owner, name = place.owner, place.name
            if last is not None:
                last[index] = getattr(owner, name)
            setattr(owner, name, memory[index])
        self._last = memory
