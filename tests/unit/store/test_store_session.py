"""Watch streams without I/O: whatever the reader's pace, each wanted change is sent once, in order, none left out."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

from hypothesis import given
from hypothesis import strategies as st

from actors.store.model.types import KeyChange
from actors.store.rpc.watch import WatchStream
from actors.store.watch.hub import WatchHub
from actors.store.watch.session import WatchSession
from protocols.etcd.types import KeyValue
from protocols.wire import etcd_pb2 as pb
from tests.unit.store.test_store_model import options

SMALL = options("/tmp").__class__(
    **{
        **{
            name: getattr(options("/tmp"), name)
            for name in ("directory", "socket", "address_file", "ca", "cert", "key")
        },
        "queue_events": 4,
        "recent_changes": 6,
    }
)
STEPS = st.lists(st.sampled_from(["commit", "commit2", "drain", "read", "progress", "tick"]), max_size=60)


def header(revision: int) -> pb.ResponseHeader:
    return pb.ResponseHeader(revision=revision)


def change(revision: int, key: bytes) -> KeyChange:
    return KeyChange(KeyValue(key, b"v", revision, revision, 1), None)


class Simulation:
    def __init__(self, start: int) -> None:
        self.hub = WatchHub(SMALL, 1, 0)
        self.session = WatchSession(SMALL, 1, header)
        self.hub.add(self.session, lambda: None)
        self.log: list[KeyChange] = []
        self.sent: list[int] = []
        self.heard = 0
        self.start = start
        request = pb.WatchCreateRequest(key=b"k", range_end=b"l", start_revision=start, progress_notify=True)
        self.session.create(request)
        assert self.session.pop().created

    def wanted(self) -> list[int]:
        return [c.revision for c in self.log if c.kv.key != b"other" and c.revision >= self.start]

    def commit(self, count: int) -> None:
        revision = self.hub.revision + 1
        changes = [change(revision + n, b"k%d" % n) for n in range(count)] + [change(revision + count, b"other")]
        self.log.extend(changes)
        self.hub.publish(changes, revision + count, 0)

    def drain(self) -> None:
        if self.session.queue:
            message = self.session.pop()
            if not message.events:
                assert message.header.revision >= self.heard
                assert self.sent == [r for r in self.wanted() if r <= message.header.revision], (
                    "progress overtook events"
                )
            self.sent.extend(event.kv.mod_revision for event in message.events)
            self.heard = max(self.heard, *self.sent[-1:], 0)

    def read(self) -> None:
        watcher = self.session.behind()
        if self.session.queue or watcher is None:
            return
        found = self.hub.recent(watcher)
        if found is None:
            rest = [c for c in self.log if c.revision >= watcher.next_revision][:3]
            found = rest, rest[-1].revision if rest else self.hub.revision
        self.session.caught_up(watcher, *found)

    def finish(self) -> None:
        while self.session.queue or self.session.behind():
            self.drain()
            self.read()

    def step(self, name: str) -> None:
        match name:
            case "commit":
                self.commit(1)
            case "commit2":
                self.commit(3)
            case "progress":
                self.session.request_progress()
            case _:
                getattr(self.session if name == "tick" else self, name)()


@given(STEPS)
def test_session_any_changes_are_sent_once_in_order(steps: list[str]) -> None:
    simulation = Simulation(start=1)
    for step in steps:
        simulation.step(step)
        assert len(simulation.session.queue) < 200
    simulation.finish()
    assert simulation.sent == simulation.wanted()


def test_session_slow_stream_has_bounded_queue() -> None:
    simulation = Simulation(start=1)
    for _ in range(1000):
        simulation.commit(1)
    assert len(simulation.session.queue) <= SMALL.queue_events + 1
    simulation.finish()
    assert len(simulation.sent) == 1000


def test_session_future_watch_gets_nothing_early() -> None:
    simulation = Simulation(start=10)
    for _ in range(6):
        simulation.commit(1)
        simulation.session.request_progress()
        simulation.session.tick()
    simulation.finish()
    assert simulation.sent == [10, 12]


def test_session_large_revision_is_cut_on_request() -> None:
    session = WatchSession(options("/tmp"), 1, header)
    session.create(pb.WatchCreateRequest(key=b"k", range_end=b"l", fragment=True))
    session.create(pb.WatchCreateRequest(key=b"k", range_end=b"l"))
    session.pop(), session.pop()
    changes = [KeyChange(KeyValue(b"k%d" % n, b"x" * 1_000_000, 2, 2, 1), None) for n in range(5)]
    session.publish(changes, 2)
    messages = [session.pop() for _ in range(len(session.queue))]
    cut = [message for message in messages if message.watch_id == 0]
    assert [message.fragment for message in cut] == [True, True, False]
    assert sum(len(message.events) for message in cut) == 5
    assert [len(message.events) for message in messages if message.watch_id == 1] == [5]


async def test_stream_lets_others_run_between_watches_of_the_past() -> None:
    """Two hundred of them held the store for half a second, and thousands for many."""
    hub = WatchHub(options("/tmp"), 1, 0)
    hub.publish([change(revision, b"other") for revision in range(2, 4002)], 4001, 0)
    stream = WatchStream(cast("Any", SimpleNamespace(options=options("/tmp"), hub=hub, header=header)))
    for number in range(200):
        create = pb.WatchCreateRequest(key=b"k%d" % number, start_revision=2)
        stream._handle(pb.WatchRequest(create_request=create))
    began = time.process_time()
    sending = asyncio.create_task(stream.send(AsyncMock()))
    turns = 0
    while stream.session.behind():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 200
    assert time.process_time() - began < 0.3
    sending.cancel()
