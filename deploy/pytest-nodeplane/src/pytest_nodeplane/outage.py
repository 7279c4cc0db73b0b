"""Let the calls of a test wait while the mark `kill_at_every_step` has killed an actor, and repeat them."""

import threading
from collections.abc import Callable
from typing import TypeVar

from protocols.errors import NodeplaneError

R = TypeVar("R")


class Outage:
    """A context manager of the thread that kills; `ride` is for the thread of the test."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._over.set()
        self._number = 0

    def __enter__(self) -> None:
        self._number += 1
        self._over.clear()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def ride(self, call: Callable[[], R]) -> R:
        """Return what a call returns that may be repeated. Its error counts unless an outage began meanwhile."""
        while True:
            self._over.wait()
            number = self._number
            try:
                return call()
            except (NodeplaneError, OSError):
                if number == self._number:
                    raise
