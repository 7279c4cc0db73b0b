"""Names by the position of their last change. Pure."""

from collections.abc import Iterable, Iterator

MAX_CHANGES = 100_000
"""Names whose last change is known; past it, everything counts as changed."""


class Changes:
    """Bounded by MAX_CHANGES names."""

    def __init__(self) -> None:
        self.position = 0
        self._latest: dict[str, int] = {}
        """In the order of the last change."""
        self._known_from = 0

    def mark(self, name: str) -> None:
        self.position += 1
        self._latest.pop(name, None)
        self._latest[name] = self.position
        if len(self._latest) > MAX_CHANGES:
            self._latest.clear()
            self._known_from = self.position

    def is_known(self, position: int) -> bool:
        """Return True if every change after the position is known."""
        return position >= self._known_from

    def since(self, position: int) -> Iterator[str]:
        """Yield the names that changed after a position, the latest first."""
        for name, changed in reversed(self._latest.items()):
            if changed <= position:
                return
            yield name

    def has_any(self, names: Iterable[str], position: int) -> bool:
        """Return True if one of the names changed, or may have changed, after a position."""
        return not self.is_known(position) or any(self._latest.get(name, 0) > position for name in names)
