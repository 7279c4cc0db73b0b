"""How a watch's bytes reach its connection: order, one write for many events, congestion, the index of channels."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from actors.apiserver.negotiate import PLAIN
from actors.apiserver.query import ListOptions
from actors.apiserver.replica.change import Change
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.stored import Stored
from actors.apiserver.selection import selection
from actors.apiserver.table import TABLE
from actors.apiserver.watch.begin import Opened, open_watch
from actors.apiserver.watch.flusher import chunk
from actors.apiserver.watch.hub import Hub, Scope
from actors.apiserver.watch.index import NODE, Index
from actors.apiserver.watch.stream import run_watch
from protocols.bus import Event, Op
from protocols.messages.objects import ADDED, ObjectEvent

PODS = TABLE.of("pods")


class Sink:
    """Remembers who wrote what; `congested` makes it refuse, `held` makes a patient write wait."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.congested = False
        self.gone = False
        self.held = asyncio.Event()
        self.held.set()

    async def open(self, media_type: str) -> None: ...

    async def write(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionResetError
        self.told.append(("patient", data))
        await self.held.wait()

    def write_now(self, chunk: bytes) -> bool:
        if self.congested or self.gone:
            return False
        self.told.append(("now", chunk))
        return True

    async def close(self) -> None:
        self.told.append(("end", b""))

    def abort(self) -> None: ...

    @property
    def ways(self) -> list[str]:
        return [way for way, _ in self.told]

    def names(self) -> list[str]:
        """Of the objects seen, `*` for a bookmark."""
        found = []
        for _, data in self.told:
            for part in data.split(b'{"type":"')[1:]:
                found.append(
                    "*" if part.startswith(b"BOOKMARK") else part.split(b'"name":"')[1].split(b'"')[0].decode()
                )
        return found


def pod(name: str, node: str = "") -> bytes:
    spec = b',"spec":{"nodeName":"%b"}' % node.encode() if node else b""
    head = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%b","namespace":"ns"}' % name.encode()
    return head + spec + b"}"


class Lab:
    """A hub and one running watch with bookmarks."""

    def __init__(self) -> None:
        self.replica = Replica(PODS)
        self.replica.on_snapshot([], 10)
        self.hub = Hub(self.replica, lambda: None, lambda _count: None)
        self.sink = Sink()
        self.opened = self.open()
        self.task = asyncio.create_task(run_watch(self.hub, self.opened, self.sink, 60.0))

    def open(self, fields: str = "", namespace: str = "") -> Opened:
        scope = Scope(namespace, selection(PODS, "", fields), PLAIN)
        return open_watch(self.hub, scope, ListOptions(version=10, bookmarks=True))

    def put(self, *names: str) -> None:
        for name in names:
            event = ObjectEvent(ADDED, self.replica.mark + 1, pod(name))
            self.replica.on_event(Event(Op.UPSERT, f"ns/{name}", event, mark=event.rv))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def story(told: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        lab = Lab()
        await turns()
        try:
            await told(lab)
        finally:
            lab.task.cancel()
            await asyncio.gather(lab.task, return_exceptions=True)

    asyncio.run(run())


def test_events_of_one_turn_leave_in_one_write_in_order() -> None:
    async def told(lab: Lab) -> None:
        lab.put("a", "b", "c")
        lab.hub.bookmark(lab.opened.watcher)
        await turns()
        assert lab.sink.ways == ["now"]
        assert lab.sink.names() == ["a", "b", "c"]
        size, _, rest = lab.sink.told[0][1].partition(b"\r\n")
        assert len(rest) == int(size, 16) + 2

    story(told)


def test_watches_that_get_the_same_share_one_chunk() -> None:
    async def told(lab: Lab) -> None:
        other = Sink()
        task = asyncio.create_task(run_watch(lab.hub, lab.open(), other, 60.0))
        await turns()
        lab.put("a", "b")
        await turns()
        assert other.told[0][1] is lab.sink.told[0][1]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    story(told)


def test_a_congested_connection_is_written_patiently_and_nothing_overtakes() -> None:
    async def told(lab: Lab) -> None:
        lab.sink.congested = True
        lab.sink.held.clear()
        lab.put("a")
        await turns()
        lab.sink.congested = False
        lab.put("b")
        lab.replica.on_mark(40)
        lab.hub.bookmark(lab.opened.watcher)
        lab.put("c")
        await turns()
        assert lab.sink.ways == ["patient"]
        lab.sink.held.set()
        await turns()
        lab.put("d")
        await turns()
        assert lab.sink.ways == ["patient", "patient", "now"]
        assert lab.sink.names() == ["a", "b", "*", "c", "d"]

    story(told)


def test_the_end_comes_after_what_was_queued_and_its_bookmark() -> None:
    async def told(lab: Lab) -> None:
        lab.put("a")
        lab.replica.on_mark(50)
        lab.hub.close()
        await asyncio.wait_for(lab.task, 1)
        assert lab.sink.names() == ["a", "*"]
        assert lab.sink.ways[-1] == "end"
        assert lab.hub.empty.is_set()

    story(told)


def test_a_lost_connection_ends_the_watch_at_the_next_event() -> None:
    async def told(lab: Lab) -> None:
        lab.sink.gone = True
        lab.put("a")
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(lab.task, 1)
        assert lab.hub.empty.is_set()

    story(told)


def test_chunk_says_its_size_in_hex() -> None:
    assert chunk((b"x" * 10, b"y" * 7)) == b"11\r\n" + b"x" * 10 + b"y" * 7 + b"\r\n"


def test_a_change_visits_only_channels_it_may_concern() -> None:
    index: Index[str] = Index(PODS.fields[NODE])
    looks = {"all": ("", ""), "ns": ("ns", ""), "other": ("other", ""), "named": ("ns", "metadata.name=a")}
    looks |= {"n1": ("", "spec.nodeName=n1"), "n2": ("", "spec.nodeName=n2"), "n3": ("", "spec.nodeName=n3")}
    looks |= {"none": ("", "spec.nodeName="), "not": ("", "spec.nodeName!=n1")}
    places = {who: index.place_of(namespace, selection(PODS, "", fields)) for who, (namespace, fields) in looks.items()}
    for who, place in places.items():
        index.add(place, who)
    moved = Change("ns/a", 5, Stored("ns/a", 4, pod("a", "n1")), Stored("ns/a", 5, pod("a", "n2")))
    assert sorted(index.concerned(moved)) == ["all", "n1", "n2", "named", "not", "ns"]
    homeless = Change("ns/b", 6, None, Stored("ns/b", 6, pod("b")))
    assert sorted(index.concerned(homeless)) == ["all", "none", "not", "ns"]
    for who, place in places.items():
        index.remove(place, who)
    assert not list(index.concerned(moved))
