"""Bugs that are planted into a correct program, by the names of the functions that replace a part of it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

BUGS: dict[str, Callable[[], None]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


def replace(owner: object, name: str, part: object) -> None:
    setattr(owner, name, part)


def spin_after(owner: object, stream: str, ended: threading.Event) -> None:
    """Let a call for a stream never return, also one that gRPC drops because its client hung up during a message."""
    correct = getattr(owner, stream)

    def spinning(*parts: Any) -> Iterator[Any]:
        try:
            yield from correct(*parts)
        finally:
            while not ended.is_set():
                pass

    replace(owner, stream, spinning)
