"""Actors of a plane and the flows between them, from the status that supervisors report and from /proc."""

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from protocols.messages.supervisor import ActorStatus, FollowedStream, OwnedStream, PlaneStatus
from supervisor.cli.inspect.status import problem
from supervisor.console.model.history import Series
from supervisor.tree.states import SERVING

LIT_S = 3.0
"""Time after a message in which its arrow is lit; heartbeats with positions come each second or two."""
RATE_S = 4.0
"""Positions are compared over at least this time: heartbeats of idle actors come each 2 s."""
SKEW_S = 2.0
"""Difference in age of the heartbeats of an owner and a follower: what moves in that time is no lag."""
MARKS = 32
"""Marks that are remembered, one of each status: ten a second while the plane settles, else one."""
RED_S = 3.0
"""Time in which a box stays red after a death: a restart takes a tenth of a second."""


class ActorUsage(msgspec.Struct, frozen=True):
    """CPU in percent of one processor, memory in MiB."""

    cpu: float
    pss: float
    stopped: bool = False
    """True while a signal such as SIGSTOP holds the process."""


class Flow(msgspec.Struct, frozen=True):
    """A stream between an owner and one of its followers."""

    owner: str
    stream: str
    follower: str
    rate: float
    lag: int
    """Messages that the follower is behind, beyond those that the ages of heartbeats explain."""
    mark_lag: int
    """Revisions that it is behind, beyond those that the ages of heartbeats explain."""
    synced: bool
    lit: bool

    @property
    def label(self) -> str:
        """The stream's name, without the owner where the name says it: `core/pods`, `pleg/pod-status`."""
        name = self.stream.removeprefix("objects/")
        return name if name != self.stream else f"{self.owner}/{self.stream}"


class Actor(msgspec.Struct):
    """One box of the house."""

    status: ActorStatus
    usage: ActorUsage = ActorUsage(0.0, 0.0)
    took_s: float | None = None
    """Duration of its last restart as the console saw it, from the end of the process until it served again."""
    died_at: float | None = None
    last_death: float = float("-inf")

    @property
    def name(self) -> str:
        return self.status.instance

    @property
    def serving(self) -> bool:
        return self.status.state in SERVING

    @property
    def state(self) -> str:
        return "stopped" if self.usage.stopped else self.status.state

    @property
    def problem(self) -> str:
        return "stopped by a signal; c continues it" if self.usage.stopped else problem(self.status)


class _Position:
    """Positions of one stream: the current one and one old enough to compute a rate."""

    def __init__(self) -> None:
        self.epoch = self.seq = self.mark = 0
        self.rate = 0.0
        self.moved_at = float("-inf")
        self._since: tuple[float, int] = (0.0, 0)
        self._marks: deque[tuple[float, int]] = deque(maxlen=MARKS)

    def mark_at(self, then: float) -> int:
        """Return the mark that was known at a time; 0 if none was."""
        return next((mark for at, mark in reversed(self._marks) if at <= then), 0)

    def update(self, now: float, epoch: int, seq: int, mark: int) -> None:
        if epoch != self.epoch or seq < self.seq:
            self.rate, self._since = 0.0, (now, seq)
            self._marks.clear()
        elif (seq, mark) != (self.seq, self.mark):
            self.moved_at = now
        self.epoch, self.seq, self.mark = epoch, seq, mark
        self._marks.append((now, mark))
        began, first = self._since
        if now - began >= RATE_S:
            self.rate, self._since = (seq - first) / (now - began), (now, seq)


class House:
    """Everything the first screen shows. Bounded by the number of actors and streams of the plane."""

    def __init__(self) -> None:
        self.actors: dict[str, Actor] = {}
        self.endpoints: dict[str, str] = {}
        self.supervisor = ""
        self.pid = 0
        self.uptime_s = 0.0
        self.notes: dict[str, str] = {}
        """A figure for the box of an actor: watches of an API process, the store's revision."""
        self.failure = "the plane has not answered yet"
        """Why the state shown is old; empty while supervisors answer."""
        self.messages = Series()
        self.cpu = Series()
        self.memory = Series()
        self._positions: dict[tuple[str, str], _Position] = {}
        self._flows: list[Flow] | None = None
        self._now = 0.0

    def update(self, plane: PlaneStatus, now: float) -> None:
        self.failure = ""
        self.supervisor, self.pid, self.uptime_s = plane.supervisor, plane.pid, plane.uptime_s
        self.endpoints = plane.endpoints
        self.actors = {status.instance: self._next(status, now) for status in plane.actors}
        self._move(now)
        self.messages.add(now, sum(position.rate for position in self._positions.values()))

    def owned(self, name: str) -> tuple[OwnedStream, ...]:
        """Return the streams that an actor owns, by its last heartbeat."""
        actor = self.actors.get(name)
        return actor.status.beat.owns if actor and actor.status.beat else ()

    def lost(self, reason: str) -> None:
        """Note that no supervisor answers."""
        self.failure = reason

    def died(self, instance: str, now: float) -> None:
        """Note the end of an actor's process at once; the supervisor reports it a moment later."""
        actor = self.actors.get(instance)
        if actor and actor.died_at is None:
            actor.died_at = actor.last_death = now
            actor.status = msgspec.structs.replace(actor.status, state="dead", pid=0, beat=None)

    def measured(self, usage: Mapping[str, ActorUsage], now: float) -> None:
        for name, actor_usage in usage.items():
            if name in self.actors:
                self.actors[name].usage = actor_usage
        self.cpu.add(now, sum(actor_usage.cpu for actor_usage in usage.values()))
        self.memory.add(now, sum(actor_usage.pss for actor_usage in usage.values()))

    def red(self, actor: Actor) -> bool:
        """Return True for an actor that does not do its work, or died a moment ago."""
        return bool(actor.problem) or self._now - actor.last_death < RED_S

    @property
    def settled(self) -> bool:
        return not self.failure and all(actor.serving for actor in self.actors.values())

    def flows(self) -> list[Flow]:
        """Return all followed streams, by owner, stream and follower."""
        if self._flows is None:
            all_flows = (self._flow(actor.name, stream) for actor in self.actors.values() for stream in _follows(actor))
            self._flows = sorted(all_flows, key=lambda flow: (flow.owner, flow.stream, flow.follower))
        return self._flows

    def _next(self, status: ActorStatus, now: float) -> Actor:
        old = self.actors.get(status.instance)
        if old is None:
            return Actor(status)
        usage = old.usage if status.pid == old.status.pid else ActorUsage(0.0, 0.0)  # that of an ended process
        fresh = Actor(status, usage, old.took_s, old.died_at, old.last_death)
        if old.died_at is None and not fresh.serving and old.serving:
            fresh.died_at = fresh.last_death = now
        elif fresh.serving and old.died_at is not None:
            if status.pid == 0 or (old.status.pid == status.pid and old.status.state == "hung"):
                fresh.died_at = None  # it was stopped and went on: no restart
            else:
                fresh.took_s, fresh.died_at = max(0.0, now - old.died_at), None
        return fresh

    def _move(self, now: float) -> None:
        self._flows, self._now = None, now
        owned = {
            (actor.name, stream.stream): (actor.status.beat.epoch, stream)
            for actor in self.actors.values()
            if actor.status.beat
            for stream in actor.status.beat.owns
        }
        for key, (epoch, stream) in owned.items():
            self._positions.setdefault(key, _Position()).update(now, epoch, stream.seq, stream.mark)
        for key in [key for key in self._positions if key not in owned]:
            if key[0] in self.actors:
                self._positions[key].rate = 0.0
            else:
                del self._positions[key]

    def _flow(self, follower: str, stream: FollowedStream) -> Flow:
        position = self._positions.get((stream.owner, stream.stream))
        if position is None:
            return Flow(stream.owner, stream.stream, follower, 0.0, 0, 0, stream.synced, False)
        behind = position.seq - (stream.seq if position.epoch == stream.epoch else 0)
        return Flow(
            owner=stream.owner,
            stream=stream.stream,
            follower=follower,
            rate=position.rate,
            lag=max(0, behind - int(position.rate * SKEW_S)),
            mark_lag=max(0, position.mark_at(self._now - SKEW_S) - stream.mark) if stream.mark else 0,
            synced=stream.synced,
            lit=self._now - position.moved_at < LIT_S,
        )


class Link(msgspec.Struct, frozen=True):
    """All flows from one actor to another."""

    rate: float
    lag: int
    lit: bool
    synced: bool


def links(flows: Iterable[Flow]) -> dict[tuple[str, str], Link]:
    """Return links by (owner, follower)."""
    links_by_pair: dict[tuple[str, str], Link] = {}
    for flow in flows:
        key = (flow.owner, flow.follower)
        old = links_by_pair.get(key, Link(0.0, 0, False, True))
        lag = max(old.lag, flow.lag)
        links_by_pair[key] = Link(old.rate + flow.rate, lag, old.lit or flow.lit, old.synced and flow.synced)
    return links_by_pair


def _follows(actor: Actor) -> Iterable[FollowedStream]:
    return actor.status.beat.follows if actor.status.beat else ()
