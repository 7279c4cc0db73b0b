"""Registrations at a played kubelet of any kind, accepted or not, and the connections that they make."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from supervisor.conform.caller import ServicePeer
from supervisor.conform.exchange import Exchange, ExchangeRecorder
from supervisor.conform.waiting import ChangeSignal

MAX_ATTEMPTS = 200
"""Registrations retained of one incarnation; after them none is accepted."""
REJECTED = "the kubelet is not ready; try again"
P = TypeVar("P", bound=ServicePeer)


@dataclass(kw_only=True)
class Registration(ABC, Generic[P]):
    """One registration, accepted or not."""

    socket: Path = Path()
    """The socket in plugins_registry/ by which the kubelet found it; Path() for a plugin that called Register."""
    at: float = field(default_factory=time.monotonic)
    fault: str = ""
    """Why it was rejected."""
    peer: P | None = None
    """Connection of one that was accepted, as long as it is open."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name that it registered."""

    @property
    @abstractmethod
    def exchanges(self) -> Iterable[Exchange | None]:
        """The calls that it consists of."""


R = TypeVar("R", bound=Registration[Any])


class PlayedKubelet(ABC, Generic[P, R]):
    """A kubelet that stops and starts anew; retains what one incarnation sees."""

    def __init__(self, recorder: ExchangeRecorder, timeout: float) -> None:
        self.recorder, self.timeout = recorder, timeout
        self.attempts: list[R] = []
        self.changes = ChangeSignal()
        self.rejecting = 0
        """Number of registrations to reject."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    @property
    def serving(self) -> dict[str, P]:
        """The newest connection by name."""
        return {attempt.name: attempt.peer for attempt in self.attempts if attempt.peer}

    def rejection(self) -> str:
        """Return the fault of a registration that is to be rejected; empty for others."""
        if self.rejecting <= 0:
            return ""
        self.rejecting -= 1
        return REJECTED

    async def disconnect(self, socket: Path) -> None:
        """Close the connections to what was found by a socket that is gone."""
        for attempt in self.attempts:
            if attempt.socket == socket and attempt.peer:
                await attempt.peer.close()
                attempt.peer = None
        self.changes.notify()

    async def forget(self) -> None:
        """Close all connections: the program at their other end is gone."""
        attempts, self.attempts = self.attempts, []
        for attempt in attempts:
            if attempt.peer:
                await attempt.peer.close()
