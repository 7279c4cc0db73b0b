"""Heartbeats to the supervisor: with each tick of the bus (1 s, 2 s while nothing changes), and at changes.

Those are of the instance's state and of followed streams.
"""

import asyncio
import os

from protocols.bus import Bus
from protocols.bus.frames import body_of
from protocols.messages.supervisor import HEARTBEAT, FollowedStream, Heartbeat, OwnedStream

STARTING, READY, STOPPING = "starting", "ready", "stopping"


class Heartbeats:
    """Casts only: without a supervisor nothing waits and nothing is retained."""

    def __init__(self, bus: Bus, supervisor: str) -> None:
        self._bus = bus
        self._supervisor = supervisor
        self._loop = asyncio.get_running_loop()
        self._beating = False
        self._due = False
        self._news: object = None
        self._body = b""
        """The newest heartbeat, encoded; `_news` is the state it reports."""
        self.state = STARTING
        self.note = ""
        self.worker = False

    def start(self) -> None:
        self._bus.watch_link(self._supervisor, self._on_link)
        self._bus.watch_synced(self._schedule)
        self._bus.on_tick(self._tick)
        self._beating = True
        self._send()

    def change(self, state: str = "", note: str | None = None) -> None:
        """Report at the end of this turn of the loop, if anything changed."""
        news = (state or self.state, self.note if note is None else note)
        if news != (self.state, self.note):
            self.state, self.note = news
            self._schedule()

    def need_worker(self) -> None:
        """Report from now on that the worker for expressions is needed."""
        if not self.worker:
            self.worker = True
            self._schedule()

    def _schedule(self) -> None:
        self._bus.note_activity()
        if not self._due:
            self._due = True
            self._loop.call_soon(self._changed)

    def stop(self) -> None:
        """Send the last heartbeat now."""
        self._beating = False
        self._send()

    def beat(self) -> Heartbeat:
        return Heartbeat(
            instance=self._bus.options.name,
            pid=os.getpid(),
            epoch=self._bus.epoch,
            state=self.state,
            note=self.note,
            owns=tuple(OwnedStream(s.name, s.seq, s.mark) for s in self._bus.owned()),
            follows=tuple(
                FollowedStream(f.owner, f.stream, f.epoch, f.seq, f.mark, f.synced) for f in self._bus.followed()
            ),
            worker=self.worker,
        )

    def _on_link(self, up: bool) -> None:
        """Report to a supervisor that has just connected."""
        if up:
            self._send()

    def _tick(self) -> None:
        if self._beating:
            self._send()

    def _changed(self) -> None:
        self._due = False
        if self._beating:
            self._send()

    def _send(self) -> None:
        """Reuse the encoded heartbeat while nothing changed."""
        followed = [(f.epoch, f.seq, f.mark, f.synced) for f in self._bus.followed()]
        news = (self.state, self.note, self.worker, self._bus.changes, followed)
        if news != self._news:
            self._news, self._body = news, body_of(self.beat())
        self._bus.cast(self._supervisor, HEARTBEAT, self._body)
