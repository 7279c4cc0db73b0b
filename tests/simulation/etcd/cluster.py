"""Three members with one leader: writes and reads are linearizable, whatever happens to members and leaders.

| while there is no leader | as etcd |
|---|---|
| a write that waits for its commit | is committed and answered late, committed without an answer, or lost |
| a request that arrives | waits for the next leader, or fails: reads with `leader changed`, all after 7 s |
| a watch | is silent; after 3 s its stream ends with `no leader` |
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.store.model.errors import StoreError
from actors.store.model.options import StoreOptions
from actors.store.model.types import Commit
from actors.store.mvcc.operations import compact
from actors.store.rpc.lease import revoke
from protocols.etcd import members
from protocols.etcd.transport.connection_channel import CallConnection, ConnectionChannel, OnMessage
from protocols.etcd.transport.frames import OK
from protocols.wire import etcd_pb2 as pb
from tests.simulation.etcd.connection import EtcdConnection
from tests.simulation.etcd.member import Member
from tests.simulation.etcd.state import EtcdState, Operation, check_space, write
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.world.world import World

PORTS = 2379, 2479, 2579
ENDPOINTS = tuple(f"127.0.0.1:{port}" for port in PORTS)
REQUEST_S = 7.0
"""Seconds after which etcd gives a request up."""
NO_LEADER_S = 3.0
EXPIRY_S = 0.5
NOWHERE = Path("/nowhere")
LOST, SILENT, DONE = range(3)
"""Fates of a write whose leader changes under it."""


class Unavailable(StoreError):
    grpc = "UNAVAILABLE"


class Cluster:
    """All state of the model. It is of no process: what faults do to members, they do here."""

    def __init__(self, world: "World", on_commit: Callable[[Commit], object]) -> None:
        self.world, self.on_commit = world, [on_commit]
        self._chance = world.random("etcd")
        self.state = EtcdState()
        self.term = 1
        self.restored_at = 0.0
        """The world's time."""
        self.version = "3.5.21" if world.draw("etcd_in_order", 0, 1, 1) else "3.5.9"
        events = int(world.draw("etcd_queue", 2, 50, 2000))
        files: dict[str, Any] = dict.fromkeys(("directory", "socket", "address_file", "ca", "cert", "key"), NOWHERE)
        self.options = StoreOptions(**files, queue_events=events)
        self._progress_s = world.draw("etcd_progress_s", 0.5, 5.0, 600.0)
        self._leader_at = 0.0
        """The world's time from which on there is a leader."""
        self.shows_at = 0.0
        """The world's time until which messages of watches are on their way."""
        self.on_restore: list[Callable[[int, int], object]] = []
        """Called with the revision that a backup had, and by how much the store's is raised."""
        self.members = [Member(self, number) for number in range(len(PORTS))]
        patch(members, "http2_channel", self._channel)

    def begin(self) -> None:
        self.world.at(EXPIRY_S, None, self._expire)
        self.world.at(self._progress_s, None, self._tick)

    @property
    def leads(self) -> bool:
        return self.world.now >= self._leader_at

    # clients

    def _channel(self, endpoint: str, *_: Any) -> ConnectionChannel:
        return ConnectionChannel(endpoint, partial(self._dial, self.members[ENDPOINTS.index(endpoint)]))

    async def _dial(self, member: Member, on_message: OnMessage, lost: Callable[[], None]) -> CallConnection:
        process = running(self.world)
        await asyncio.sleep(max(self.world.latency(), member.silent_until - self.world.now))
        if self.world.now < member.away_until:
            raise ConnectionRefusedError(111, "Connection refused")
        return EtcdConnection(member, process, on_message, lost)

    def call(self, member: Member, connection: EtcdConnection, number: int, method: str, body: bytes) -> None:
        """Take a unary request that has arrived at a member."""
        if method == "Maintenance/Status":
            connection.answer(number, OK, member.status().SerializeToString())
        else:
            _Call(self, member, connection, number, method, body).begin()

    # the log

    def commit(self, operation: Operation) -> Any:
        """Apply an operation and return its answer; members follow. Raises StoreError."""
        answer, commit = self.state.apply(operation, self.world.now)
        for observer in tuple(self.on_commit):
            observer(commit)
        for member in self.members:
            late = max(self.world.latency(), member.silent_until - self.world.now)
            self.world.at(late, None, member.catch_up)
        return answer

    def compact(self, revision: int) -> None:
        """Compact as somebody else's client does, unless that is done already."""
        if revision > self.state.index.compacted:
            self.commit(partial(compact, revision))

    def restore(self, back: int, bump: int, seconds: float) -> None:
        """Restore all members from a backup that is `back` revisions old, and start them after some seconds."""
        revision = max(1, self.state.revision - back)
        self.term, self.restored_at = self.term + 1, self.world.now
        for member in self.members:
            member.go_away(seconds)
        self.state.restore(revision, bump, self.world.now)
        for member in self.members:
            member.applied = self.state.revision
        for observer in self.on_restore:
            observer(revision, bump)

    def lose_leader(self, seconds: float) -> None:
        """Elect a new leader after so many seconds."""
        self.term += 1
        self._leader_at = max(self._leader_at, self.world.now + seconds)
        self.world.at(seconds, None, lambda: self.state.promote(self.world.now))
        if seconds > NO_LEADER_S:
            for member in self.members:
                self.world.at(NO_LEADER_S, None, member.end_watches)

    def when_led(self, work: Callable[[], object]) -> None:
        """Do it once there is a leader, or now."""
        if self.leads:
            work()
        else:
            self.world.at_time(self._leader_at + self.world.latency(), None, lambda: self.when_led(work))

    def fate(self) -> int:
        return self._chance.choice((LOST, SILENT, DONE))

    def often(self) -> bool:
        return self._chance.random() < 0.5

    def lease_id(self) -> int:
        return self._chance.getrandbits(62) | 1

    def _expire(self) -> None:
        self.world.at(EXPIRY_S, None, self._expire)
        for lease in self.state.leases.expired(self.world.now) if self.leads else ():
            self.commit(partial(revoke, lease))

    def _tick(self) -> None:
        self.world.at(self._progress_s, None, self._tick)
        for member in self.members:
            member.tick()


class _Call:
    """A unary request from its arrival to its answer."""

    def __init__(
        self, cluster: Cluster, member: Member, connection: EtcdConnection, number: int, method: str, body: bytes
    ) -> None:
        self._cluster, self._member, self._connection = cluster, member, connection
        self._number, self._method, self._body = number, method, body
        self._term = cluster.term
        self._arrived = cluster.world.now

    def begin(self) -> None:
        work = self._read if self._method == "KV/Range" else self._propose
        if self._cluster.leads:
            self._cluster.world.at(self._cluster.world.latency(), None, work)
        elif work == self._read and self._cluster.often():
            self._fail("etcdserver: leader changed")
        else:
            self._cluster.when_led(self._late)

    def _late(self) -> None:
        """Go on under a new leader, unless the client has given up: then the request was dropped, or was not."""
        cluster = self._cluster
        if cluster.world.now - self._arrived > REQUEST_S:
            self._fail("etcdserver: request timed out, possibly due to previous leader failure")
        elif self._number in self._connection.open or cluster.often():
            self._term = cluster.term
            self._read() if self._method == "KV/Range" else self._propose()

    def _read(self) -> None:
        if not self._cluster.leads:
            return self._fail("etcdserver: leader changed")
        self._member.catch_up()
        return self._answer(lambda: self._cluster.state.range(pb.RangeRequest.FromString(self._body)))

    def _propose(self) -> None:
        cluster = self._cluster
        fate = DONE if self._term == cluster.term and cluster.leads else cluster.fate()
        if fate is DONE:
            cluster.when_led(self._commit)
            return
        if fate is SILENT:
            cluster.when_led(partial(self._commit, silent=True))
        text = "etcdserver: request timed out, possibly due to previous leader failure"
        cluster.world.at(REQUEST_S, None, lambda: self._fail(text))

    def _commit(self, silent: bool = False) -> None:
        cluster = self._cluster
        if self._arrived < cluster.restored_at:
            return  # lost with the members that had it

        def work() -> Any:
            check_space(cluster.state, self._method, self._body)
            operation = write(cluster.state, self._method, self._body, cluster.lease_id())
            answer = cluster.commit(operation)
            self._member.catch_up()
            return answer

        if silent:
            self._quietly(work)
        else:
            self._answer(work)

    def _quietly(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except StoreError:
            return

    def _answer(self, work: Callable[[], Any]) -> None:
        try:
            answer = work()
        except StoreError as error:
            self._member.error(self._connection, self._number, error)
            return
        answer.header.CopyFrom(self._member.header(answer.header.revision or None))
        self._connection.answer(self._number, OK, answer.SerializeToString())

    def _fail(self, text: str) -> None:
        self._member.error(self._connection, self._number, Unavailable(text))
