"""What the watcher finds, and whom it tells."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Found(NamedTuple):
    """A plugin as its GetInfo describes it."""

    type: str
    name: str
    endpoint: str
    """Absolute path: the socket of the plugin's own service."""
    versions: tuple[str, ...]
    socket: Path
    """The socket it registered by."""


class Handler(Protocol):
    """Takes in the plugins of one type. The first two raise NodeplaneError with the text the plugin is to be told."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """Its socket is gone, or it did not hear that it was taken. Raises nothing."""
        ...
