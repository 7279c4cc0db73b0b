"""One connection of a client to a member: messages in order each way, late, held back, or lost with it."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocols.etcd.transport.connection_channel import LOST, OnMessage
from protocols.etcd.transport.frames import ERROR

if TYPE_CHECKING:
    from tests.simulation.etcd.member import Member
    from tests.simulation.world.process import Process

WINDOW = 32
"""Messages of a stream that its client has not taken, before the member waits."""
_GONE = f"UNAVAILABLE\0{LOST}".encode()


class EtcdConnection:
    """Its first half is protocols.etcd.transport.connection_channel.CallConnection, its second half the member's."""

    def __init__(self, member: "Member", process: "Process", on_message: OnMessage, lost: Callable[[], None]) -> None:
        self._member, self._process, self._world = member, process, process.world
        self._on_message, self._lost = on_message, lost
        self.alive = True
        self.open: dict[int, bool] = {}
        """Calls under way, as the client knows; True where one message is the whole answer."""
        self._paused = False
        self._arrived: deque[tuple[int, int, bytes]] = deque()
        self._flying = 0
        self._last_up = self._last_down = 0.0
        process.ends[self] = None
        member.connections[self] = None

    # the client's

    @property
    def draining(self) -> bool:
        return not self.alive

    def send(self, number: int, method: str, body: bytes, last: bool) -> None:
        self.open.setdefault(number, last)
        self._to_member(body, lambda: self._member.receive(self, number, method, body))

    def cancel(self, number: int) -> None:
        self.open.pop(number, None)

    def pause(self, pause: bool) -> None:
        self._paused = pause
        if not pause and self._arrived:
            self._process.soon(self._take)

    def close(self) -> None:
        self.die()

    def die(self) -> None:
        """End it by its client, or with the client's process."""
        if self.alive:
            self._end()

    def cut(self) -> None:
        """Break it, with what is on its way. Runs in no process."""
        if self.alive:
            self._end()
            self._world.at(self._world.latency(), self._process, self._fail)

    def _end(self) -> None:
        self.alive = False
        self._process.ends.pop(self, None)
        self._member.disconnected(self)

    def _fail(self) -> None:
        self._lost()
        under_way, self.open = self.open, {}
        for number in under_way:
            self._on_message(number, ERROR, _GONE)

    def _take(self) -> None:
        while self._arrived and not self._paused and self.alive:
            number, kind, body = self._arrived.popleft()
            self._flying -= 1
            if kind == ERROR or self.open.get(number):
                self.open.pop(number, None)
            self._on_message(number, kind, body)
        if not self._arrived and self.alive:
            self._world.at(self._world.latency(), None, lambda: self._member.flush(self))

    # the member's

    @property
    def writable(self) -> bool:
        return self._flying < WINDOW

    def answer(self, number: int, kind: int, body: bytes) -> None:
        """Send a message of a call, however late the member is by now."""
        if not self.alive:
            return
        self._flying += 1
        world = self._world
        self._last_down = max(self._last_down, world.now + world.latency(), self._member.silent_until)
        arrives = self._last_down if self.open.get(number) else max(self._last_down, self._member.cluster.shows_at)
        world.at_time(arrives, self._process, lambda: self._arrive(number, kind, body))

    def _arrive(self, number: int, kind: int, body: bytes) -> None:
        if self.alive:
            self._world.trace.message(self._world.now, self._member.number, self._process.pid, body)
            self._arrived.append((number, kind, body))
            self._take()

    def _to_member(self, body: bytes, work: Callable[[], object]) -> None:
        if not self.alive:
            return
        world = self._world
        self._last_up = max(self._last_up, world.now + world.latency(), self._member.silent_until)
        world.trace.message(world.now, self._process.pid, self._member.number, body)
        world.at_time(self._last_up, None, lambda: self.alive and work())
