"""What every actor is: started with a context, stopped orderly, killed at any time."""

from typing import Protocol

import msgspec


class Actor(Protocol):
    """Made with a Context by run_actor. What it owns must bear a kill -9 between any two lines of these methods."""

    async def start(self) -> None:
        """Own streams, serve methods, follow others, spawn tasks. Does not wait for other actors longer than needed."""
        ...

    async def stop(self) -> None:
        """Orderly end; has Timings.stop seconds. Not called after a fault: a broken state is not to be written."""
        ...


class Timings(msgspec.Struct, frozen=True):
    beat: float = 1.0
    """Seconds between beats."""
    stop: float = 5.0
    """Seconds Actor.stop has."""
    close: float = 1.0
    """Seconds the bus and leftover tasks have after that."""


class Arguments(msgspec.Struct, frozen=True):
    """The command line of every actor."""

    settings: str
    instance: str
    supervisor: str
