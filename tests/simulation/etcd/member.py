"""A member: its connections, and watches that see what it has applied. Its state is the cluster's."""

from typing import TYPE_CHECKING

import grpc

from actors.store.model.errors import StoreError
from actors.store.watch.session import WatchSession
from actors.store.watch.watchers import strip_compacted
from protocols.etcd.transport.frames import ERROR, OK, WATCH
from protocols.wire import etcd_pb2 as pb

if TYPE_CHECKING:
    from tests.simulation.etcd.cluster import Cluster
    from tests.simulation.etcd.connection import EtcdConnection

CATCH_UP_S = 0.1
"""Seconds between two passes of etcd over watchers that are behind."""


class Member:
    def __init__(self, cluster: "Cluster", number: int) -> None:
        self.cluster, self.number, self._world = cluster, number, cluster.world
        self.applied = cluster.state.revision
        self.away_until = self.silent_until = 0.0
        """Times of the world until which nobody can connect, and until which nothing of it arrives."""
        self.connections: dict[EtcdConnection, None] = {}
        self._sessions: dict[EtcdConnection, WatchSession] = {}

    def header(self, revision: int | None = None) -> pb.ResponseHeader:
        return pb.ResponseHeader(
            cluster_id=1,
            member_id=self.number + 1,
            revision=self.applied if revision is None else revision,
            raft_term=self.cluster.term,
        )

    def receive(self, connection: "EtcdConnection", number: int, method: str, body: bytes) -> None:
        if method == WATCH:
            self._watch(connection, body)
        elif number in connection.open:
            self.cluster.call(self, connection, number, method, body)

    def error(self, connection: "EtcdConnection", number: int, error: StoreError) -> None:
        connection.answer(number, ERROR, f"{error.grpc}\0{error}".encode())

    def status(self) -> pb.StatusResponse:
        cluster = self.cluster
        alarms = [f"memberID:{self.number + 1} alarm:NOSPACE "] if cluster.state.full else []
        size = 1 << 20
        return pb.StatusResponse(header=self.header(), version=cluster.version, dbSize=size, errors=alarms)

    def go_away(self, seconds: float) -> None:
        """Break every connection and accept none for a while."""
        self.away_until = self._world.now + seconds
        for connection in list(self.connections):
            connection.cut()

    def disconnected(self, connection: "EtcdConnection") -> None:
        self.connections.pop(connection, None)
        self._sessions.pop(connection, None)

    # watches

    def _watch(self, connection: "EtcdConnection", body: bytes) -> None:
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = WatchSession(self.cluster.options, self.applied, self.header)
        request = pb.WatchRequest.FromString(body)
        match request.WhichOneof("request_union"):
            case "create_request":
                session.create(request.create_request)
            case "cancel_request":
                session.cancel(request.cancel_request.watch_id)
            case "progress_request":
                session.request_progress()
        self.flush(connection)

    def catch_up(self) -> None:
        """Apply what is committed, and notify watches."""
        state, before = self.cluster.state, self.applied
        if before >= state.revision:
            return
        self.applied = state.revision
        changes = state.changes(before, self.applied)
        for connection, session in list(self._sessions.items()):
            session.publish(changes, self.applied)
            self.flush(connection)

    def tick(self) -> None:
        for connection, session in list(self._sessions.items()):
            session.tick()
            self.flush(connection)

    def end_watches(self) -> None:
        """End all streams, as for want of a leader: their clients ask for that."""
        for connection in list(self._sessions):
            text = f"{grpc.StatusCode.UNAVAILABLE.name}\0etcdserver: no leader"
            connection.answer(1, ERROR, text.encode())
            del self._sessions[connection]

    def flush(self, connection: "EtcdConnection") -> None:
        """Send what is queued, as far as the client reads."""
        session = self._sessions.get(connection)
        while session is not None and session.queue and connection.writable:
            connection.answer(1, OK, session.pop().SerializeToString())
        if session is not None and not session.queue and session.behind() is not None:
            self._world.at(CATCH_UP_S, None, lambda: self._continue(connection))

    def _continue(self, connection: "EtcdConnection") -> None:
        session = self._sessions.get(connection)
        watcher = session.behind() if session is not None and not session.queue else None
        if session is None or watcher is None:
            return
        compacted = self.cluster.state.index.compacted
        if watcher.next_revision < compacted:
            session.compacted(watcher, compacted)
        else:
            changes = self.cluster.state.changes(watcher.next_revision - 1, self.applied)
            session.caught_up(watcher, strip_compacted(changes, compacted), self.applied)
        self.flush(connection)
