"""Follow a watch through every break: a snapshot first, then resume at the last position, so nothing is missed or told
twice; where a server offers no such thing, its plain events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import unix_channel
from protocols.wire.pod_resources import (
    LIST_AND_WATCH,
    LIST_AND_WATCH_ALLOCATABLE,
    RESUME,
    REVISION,
    SEQUENCE,
    SNAPSHOT,
)
from supervisor.errors import SupervisorError

RETRY_FIRST, RETRY_MOST = 0.05, 1.0

METHODS: dict[str, Any] = {"pods": LIST_AND_WATCH, "allocatable": LIST_AND_WATCH_ALLOCATABLE}
BOOKMARK = v1.ListAndWatchPodResourcesResponse.BOOKMARK
"""The same number in both methods."""

LAWFUL = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.RESOURCE_EXHAUSTED)
"""Ends after which a client tries again; every other one is a mistake that stays."""


@dataclass(frozen=True)
class FollowOptions:
    socket: Path
    what: str
    """pods or allocatable."""
    snapshot: bool
    show: Callable[[Any], None]
    """Gets every event but bookmarks."""
    say: Callable[[str], None]
    """Gets one line for everything else that happens."""


class Position:
    """Where the next stream has to begin; empty = nothing is known yet."""

    def __init__(self, snapshot: bool) -> None:
        self._snapshot = snapshot
        self._lineage = ""
        self._count = 0
        self._whole = False

    def metadata(self) -> tuple[tuple[str, str], ...]:
        if self._whole:
            return ((SEQUENCE, "1"), (RESUME, f"{self._lineage}-{self._count}"))
        return ((SEQUENCE, "1"), (SNAPSHOT, "1")) if self._snapshot else ((SEQUENCE, "1"),)

    def joined(self, headers: dict[str, str]) -> None:
        """A stream without snapshot stands where its headers say; one with a snapshot only at the bookmark."""
        lineage, _, count = headers.get(REVISION, "").partition("-")
        if not self._whole and lineage:
            self._lineage, self._count, self._whole = lineage, int(count), not self._snapshot

    def moved(self, event: Any) -> None:
        if event.sequence:
            self._count = event.sequence
            self._whole = bool(self._lineage)

    def lost(self) -> None:
        """The server does not know our position: all over again, with everything shown anew."""
        self._whole, self._lineage = False, ""


async def follow(options: FollowOptions) -> None:
    """Never ends by itself; raises SupervisorError when the server refuses for good."""
    position, pause = Position(options.snapshot), RETRY_FIRST
    complaint = ""
    while True:
        try:
            async for event in _events(options, position):
                position.moved(event)
                pause, complaint = RETRY_FIRST, ""
                if event.action != BOOKMARK:
                    options.show(event)
        except grpc.aio.AioRpcError as error:
            if error.code() not in LAWFUL:
                raise SupervisorError(f"{options.socket}: {error.details()}") from None
            if error.code() is grpc.StatusCode.OUT_OF_RANGE:
                position.lost()
            complaint = _complain(options, error, complaint)
        await asyncio.sleep(pause)
        pause = min(pause * 2, RETRY_MOST)


async def _events(options: FollowOptions, position: Position) -> AsyncIterator[Any]:
    """One stream, from its headers to its end."""
    method = METHODS[options.what]
    async with unix_channel(options.socket) as channel:
        call = method.stream(channel)(method.request(), metadata=position.metadata())
        headers = {str(key): str(value) for key, value in await call.initial_metadata() or ()}
        position.joined(headers)
        async for event in call:
            yield event


def _complain(options: FollowOptions, error: grpc.aio.AioRpcError, last: str) -> str:
    """Once per trouble, not once per try."""
    line = f"watch interrupted ({error.code().name}); connecting again"
    if line != last:
        options.say(f"# {line}")
    return line
