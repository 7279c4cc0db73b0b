"""A sink that keeps a state stream's items and tells what changed, so that a snapshot looks like a few changes."""

from collections.abc import Callable
from typing import Generic, TypeVar

from protocols.bus.types import Event, Op

V = TypeVar("V")
OnChange = Callable[[Op, str, V | None, V | None], None]


class Replica(Generic[V]):
    """`on_change(op, key, new, old)`: new is None for DELETE, old is None for a new key. `items` is read only."""

    def __init__(self, on_change: OnChange[V] | None = None) -> None:
        self.items: dict[str, V] = {}
        self.mark = 0
        self.synced = False
        self._on_change = on_change

    def on_snapshot(self, items: list[tuple[str, V]], mark: int) -> None:
        """Swap: deletes first, then what is new or different."""
        fresh = dict(items)
        for key in [key for key in self.items if key not in fresh]:
            self._remove(key)
        for key, value in items:
            if key not in self.items or self.items[key] != value:
                self._set(key, value)
        self.mark = mark

    def on_event(self, event: Event[V]) -> None:
        if event.op is Op.DELETE:
            self._remove(event.key)
        elif event.value is not None:
            self._set(event.key, event.value)
        self.mark = event.mark or self.mark

    def on_mark(self, mark: int) -> None:
        self.mark = mark

    def on_synced(self, synced: bool) -> None:
        self.synced = synced

    def _set(self, key: str, value: V) -> None:
        old = self.items.get(key)
        self.items[key] = value
        if self._on_change:
            self._on_change(Op.UPSERT, key, value, old)

    def _remove(self, key: str) -> None:
        old = self.items.pop(key, None)
        if old is not None and self._on_change:
            self._on_change(Op.DELETE, key, None, old)
