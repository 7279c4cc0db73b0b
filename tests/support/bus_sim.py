"""The bus's pure parts, owner and follower, joined by a network that loses, doubles and reorders as it is told."""

from collections.abc import Iterable

import msgspec

from protocols.bus.follower import Action, Clock, Deliver, Follower, FollowerOptions, Heard, Link, Send, Swap
from protocols.bus.frames import BusyFrame, Chunk, EventFrame, MoreFrame, SyncFrame
from protocols.bus.stream import ChunkLimits, DeskLimits, Stream, SyncDesk
from protocols.bus.types import Event, Item, Op, Value

PIPE = 12
"""Messages the PUB pipe holds: a reader slower than that loses the newest."""


class Durable(msgspec.Struct):
    """What an owner has on disk: survives its restarts."""

    state: dict[str, bytes] = {}
    log: list[Event[Value]] = []
    mark: int = 0


class Source:
    def __init__(self, durable: Durable, edge: bool, replays: bool) -> None:
        self._durable = durable
        self._edge = edge
        self._replays = replays

    def snapshot(self) -> Iterable[Item]:
        return [] if self._edge else [Item(k, v) for k, v in self._durable.state.items()]

    def since(self, mark: int) -> Iterable[Event[Value]] | None:
        if not self._replays:
            return None
        return [event for event in self._durable.log if event.mark > mark]


class Sim:
    def __init__(self, edge: bool, replays: bool, ring: int = 6, marks: bool = True) -> None:
        self.durable = Durable({}, [])
        self.edge, self.replays, self.ring, self.marks = edge, replays, ring, marks
        self.now, self.epoch, self.count, self.replica_mark = 100.0, 0, 0, 0
        self.pub: list[EventFrame | Heard] = []
        self.asked: list[SyncFrame | MoreFrame] = []
        self.answers: list[Chunk | BusyFrame] = []
        self.follower = Follower(FollowerOptions("s", buffer_events=8))
        self.replica: dict[str, bytes] = {}
        self.told: list[int | None] = []
        """Numbers of delivered events; None where the sink was told that some may be missing."""
        self.swaps = 0
        self.link = False
        self._live()
        self.connect()

    # the owner

    def _live(self) -> None:
        self.epoch += 10
        self.desk = SyncDesk(DeskLimits(sessions=1, window=1, chunk=ChunkLimits(count=2)))
        self.stream = Stream("s", Source(self.durable, self.edge, self.replays), self.ring, lambda data: None)
        self.stream.epoch = self.epoch
        self.stream.mark = self.durable.mark

    def write(self, key: str, delete: bool = False, batch: int = 1, publish: bool = True) -> None:
        """Commit, then publish: `publish` False is a crash in between, so a restart follows it."""
        mark = self.durable.mark + 1 if self.marks else 0
        self.durable.mark = mark
        for _ in range(batch):
            self.count += 1
            body = b"%d" % self.count
            op = Op.APPEND if self.edge else Op.DELETE if delete else Op.UPSERT
            self.durable.log.append(Event(op, key, body, mark=mark))
            if op is Op.DELETE:
                self.durable.state.pop(key, None)
            else:
                self.durable.state[key] = body
            if publish:
                self.stream.publish(op, key, body, mark)
                frame = Event(op, key, body, self.stream.seq, mark, self.epoch)
                self._send(frame)
        if not publish:
            self.restart()

    def restart(self) -> None:
        self.disconnect()
        self._live()
        self.connect()

    def tick(self, proof: bool = False) -> None:
        self._send(Heard(self.epoch, self.stream.seq, self.stream.mark, proof))

    def _send(self, frame: EventFrame | Heard) -> None:
        if len(self.pub) < PIPE:
            self.pub.append(frame)

    # the network

    def connect(self) -> None:
        self.link = True
        self.step(Link(True))

    def disconnect(self) -> None:
        """What was on its way over the connection is gone; the PUB pipe may still bring old messages."""
        self.link = False
        self.asked.clear()
        self.answers.clear()
        self.step(Link(False))

    def hear(self, index: int = 0, keep: bool = False) -> None:
        """The follower gets one message of the PUB pipe; `keep` makes it come again."""
        if index < len(self.pub):
            frame = self.pub[index] if keep else self.pub.pop(index)
            if isinstance(frame, Event) and self.follower.accept(frame):
                self._apply([Deliver(frame)])
            elif not (isinstance(frame, Heard) and self._quick(frame)):
                self.step(frame)

    def _quick(self, tick: Heard) -> bool:
        return self.follower.accept_tick(tick.epoch, (tick.seq, tick.mark), self.now)

    def lose(self, index: int = 0) -> None:
        if index < len(self.pub):
            self.pub.pop(index)

    def serve(self) -> None:
        """The owner takes one question."""
        if self.asked:
            frame = self.asked.pop(0)
            if isinstance(frame, SyncFrame):
                self.answers += self.desk.sync(b"f", frame, self.stream, self.now)
                self.tick(proof=True)
            else:
                self.answers += self.desk.more(b"f", frame, self.now)

    def answer(self, keep: bool = False) -> None:
        if self.answers:
            self.step(self.answers[0] if keep else self.answers.pop(0))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.step(Clock())
        self.desk.expire(self.now)

    # the follower

    def step(self, message: EventFrame | Heard | Chunk | BusyFrame | Link | Clock) -> None:
        self._apply(self.follower.step(message, self.now))

    def _apply(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send) and self.link:
                self.asked.append(action.frame)
            elif isinstance(action, Deliver):
                self._deliver(action.frame)
            elif isinstance(action, Swap):
                self.replica = dict(action.items)
                self.told.append(None)
                self.swaps += 1

    def _deliver(self, frame: EventFrame) -> None:
        self.told.append(int(frame.value or b""))
        if frame.op is Op.DELETE:
            self.replica.pop(frame.key, None)
        else:
            self.replica[frame.key] = frame.value or b""

    # quiet

    def calm(self) -> None:
        """Everything on its way arrives."""
        for _ in range(40):
            self.hear()
            self.serve()
            self.answer()

    def settle(self) -> None:
        """A network that behaves for some seconds."""
        for second in range(12):
            self.tick()
            for _ in range(5):
                self.calm()
                self.wait(0.2)
            if second > 8 and self.follower.synced:
                return
