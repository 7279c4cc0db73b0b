"""The end of a watch whose client reads nothing."""

import asyncio
from typing import Any

import pytest

from actors.apiserver.api.encoding.negotiate import PLAIN
from actors.apiserver.api.request.query import ListOptions
from actors.apiserver.api.request.selection import selection
from actors.apiserver.replica.replica import Replica
from actors.apiserver.table import TABLE
from actors.apiserver.watch import connection
from actors.apiserver.watch.backlog import Backlog
from actors.apiserver.watch.begin import open_watch
from actors.apiserver.watch.connection import ConnectionOptions, WatchConnection
from actors.apiserver.watch.hub import Hub, HubOptions
from actors.apiserver.watch.scope import Scope

CONFIGMAPS = TABLE.of("configmaps")


class Transport:
    """A client that reads nothing until it is told to."""

    def __init__(self) -> None:
        self.aborted, self.closed = asyncio.Event(), False

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True
        self.aborted.set()
        self.protocol.connection_lost(None)


def unread_watch(ended: list[bool], hub: Hub | None = None, seconds: float = 0.0) -> tuple[Transport, WatchConnection]:
    hub = hub or Hub(Replica(CONFIGMAPS), HubOptions())
    opened = open_watch(hub, Scope("", selection(CONFIGMAPS, "", ""), PLAIN), ListOptions(bookmarks=True))
    options = ConnectionOptions(hub, seconds, True, False, lambda: ended.append(True), lambda _: None)
    transport: Any = Transport()
    watch = WatchConnection(options, transport, opened.watcher)
    watch.begin((), opened.initial, congested=True)
    return transport, watch


async def test_client_that_reads_nothing_loses_the_connection_of_an_ended_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.0)
    ended: list[bool] = []
    transport, watch = unread_watch(ended)
    watch.alarm()
    async with asyncio.timeout(30):
        await transport.aborted.wait()
    assert ended == [True]


async def test_client_that_reads_the_rest_gets_a_clean_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.005)
    ended: list[bool] = []
    transport, watch = unread_watch(ended)
    watch.alarm()
    watch.resume_writing()
    await asyncio.sleep(0)
    assert (ended, transport.closed) == ([True], True)
    await asyncio.sleep(0.02)
    assert not transport.aborted.is_set()


async def test_watch_that_its_bookmark_ends_has_no_alarm_left() -> None:
    """Without room for more events the longest queues end: the alarm of such a watch rang on until its end."""
    replica, ended = Replica(CONFIGMAPS), list[bool]()
    hub = Hub(replica, HubOptions(backlog=Backlog(1)))
    watches = [unread_watch(ended, hub, 3600.0)[1] for _ in range(2)]
    replica.on_mark(10)
    slots = dict(hub.alarms._slots)
    hub.alarms._slots.clear()  # they ring
    for watch in watches:
        watch.alarm()
    assert (ended, len(slots), hub.alarms._slots) == ([True, True], 1, {})
