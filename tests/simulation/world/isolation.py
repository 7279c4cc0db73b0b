"""State that modules keep for their process: each simulated process has its own.

The world swaps the values when another process runs. What is missing from the list is shared by all processes.
"""

from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
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
        Place(asking.Process, "short", nothing),
        Place(selections, "_results", nothing),
        Place(files, "_swept", set),
    ]


class Isolation:
    """Swaps the values of all places."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._modules: list[tuple[int, dict[str, Any], str]] = []
        self._others: list[tuple[int, Any, str]] = []
        """Places by number: those in dictionaries of modules, which are faster, and those in classes and objects. Most
        values are the same in most processes: a write that changes nothing would cost classes their caches."""
        self.last: list[Any] | None = None
        """Memory of the process whose values are in place."""
        for place in places():
            self.add(place.owner, place.name, place.fresh)

    def add(self, owner: Any, name: str, fresh: Fresh) -> None:
        """Declare another place; call it before any process runs."""
        getattr(owner, name)
        number = len(self._places)
        self._places.append(Place(owner, name, fresh))
        if isinstance(owner, ModuleType):
            self._modules.append((number, vars(owner), name))
        else:
            self._others.append((number, owner, name))

    def enter(self, memory: list[Any]) -> None:
        """Put the values of a process in place; `memory` is its list, empty at first."""
        last = self.last
        if last is memory:
            return
        if not memory:
            memory.extend(place.fresh() for place in self._places)
        if last is None:
            last = [None] * len(memory)
        for number, attributes, name in self._modules:
            last[number] = found = attributes[name]
            if found is not memory[number]:
                attributes[name] = memory[number]
        for number, owner, name in self._others:
            last[number] = found = getattr(owner, name)
            if found is not memory[number]:
                setattr(owner, name, memory[number])
        self.last = memory
