"""Who holds an event loop: records, the monitor's thread, and requests refused because of them."""

import asyncio
import os
import threading
import time
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from yarl import URL

from actors.apiserver.api.errors import TooManyRequests
from actors.apiserver.api.request.user import User
from actors.apiserver.http.authentication.authenticator import Identity
from actors.apiserver.http.routing import stalled as stalled_module
from actors.apiserver.http.routing.call import Call
from actors.apiserver.http.routing.stalled import (
    Cause,
    LoopMonitor,
    LoopMonitorOptions,
    StalledRequests,
    cause_of,
    shape_of,
)
from protocols.process import stalls
from protocols.process.stalls import Stall
from supervisor.tree.states import usage_of

ALICE, BOB = User("alice", ("system:authenticated",)), User("bob", ("system:authenticated",))
SCHEDULER = User("system:kube-scheduler")


def request(path: str, method: str = "GET") -> Any:
    return SimpleNamespace(method=method, rel_url=URL(path, encoded=True))


def stall(instance: str = "a", key: str = "k", at: float | None = None, pid: int = 7) -> Stall:
    return Stall(instance, pid, time.time() if at is None else at, "what", key)


def test_a_record_is_read_until_it_expires_and_removed_then(tmp_path: Path) -> None:
    now = time.time()
    stalls.write(tmp_path, stall(at=now))
    assert [each.key for each in stalls.read_all(tmp_path, now + stalls.KEPT_S - 1)] == ["k"]
    assert list(stalls.read_all(tmp_path, now + stalls.KEPT_S)) == []
    assert stalls.read(tmp_path, "a", 7) is None


def test_garbage_among_the_records_is_removed(tmp_path: Path) -> None:
    stalls.write(tmp_path, stall())
    for name, text in (
        ("b-1.json", b"{"),
        ("c-1.json", b"[]"),
        ("d-1.json", b"x" * 100_000),
        ("e-1.json", b'{"key":"\xff"}'),
    ):
        (tmp_path / stalls.DIRECTORY / name).write_bytes(text)
    assert [each.instance for each in stalls.read_all(tmp_path)] == ["a"]
    assert len(list((tmp_path / stalls.DIRECTORY).iterdir())) == 1


def test_the_newest_records_are_retained(tmp_path: Path) -> None:
    now = time.time()
    for number in range(stalls.MOST_RECORDS + 5):
        stalls.write(tmp_path, stall(pid=number, at=now - 100 + number))
    found = list(stalls.read_all(tmp_path, now))
    assert [each.pid for each in found] == list(range(5, stalls.MOST_RECORDS + 5))
    assert len(list((tmp_path / stalls.DIRECTORY).iterdir())) == stalls.MOST_RECORDS


def test_a_request_on_record_is_refused_to_its_user_alone(tmp_path: Path) -> None:
    stalled, path = StalledRequests(tmp_path), request("/x?labelSelector=a")
    stalled.read()
    stalled.check(path, ALICE, None)
    stalls.write(tmp_path, stall(key=shape_of(path, ALICE, None)))
    stalled.read()
    with pytest.raises(TooManyRequests) as caught:
        stalled.check(request("/x?labelSelector=b"), ALICE, None)
    assert 0 < caught.value.retry_after <= stalls.KEPT_S
    stalled.check(path, BOB, None)
    stalled.check(request("/y"), ALICE, None)
    stalls.remove(tmp_path, "a", 7)
    stalled.read()
    stalled.check(path, ALICE, None)


def test_an_own_request_on_record_refuses_no_other_of_its_user(tmp_path: Path) -> None:
    stalled = StalledRequests(tmp_path)
    stalls.write(tmp_path, stall(key=shape_of(request("/x?a=1"), SCHEDULER, None)))
    stalled.read()
    with pytest.raises(TooManyRequests):
        stalled.check(request("/x?a=1"), SCHEDULER, None)
    stalled.check(request("/x?a=2"), SCHEDULER, None)


class Works:
    """A handler that names its request as ours does."""

    def __call__(self, call: Call) -> Cause | None:
        import sys

        return cause_of(sys._getframe())


def test_the_cause_of_a_frame_names_the_request_it_works_on() -> None:
    call = Call(request("/x?" + "y" * 1000, "POST"))
    assert Works()(call) == Cause(f"user='' verb=post path={'/x?' + 'y' * 253!r}", "")
    call.identity = Identity(ALICE, ALICE)
    found = Works()(call)
    assert found is not None
    assert found.key == "alice POST /x"
    assert found.what.startswith("user='alice' verb=post path='/x?yyy")
    assert cause_of(None) is None


async def test_a_held_loop_is_recorded_while_it_is_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalled_module, "EVERY_S", 0.02)
    monkeypatch.setattr(stalled_module, "LATE_S", 0.1)
    monkeypatch.setattr(stalled_module, "WORKED_S", 0.1)
    frames: list[FrameType] = []

    def find(frame: FrameType) -> Cause | None:
        frames.append(frame)
        return Cause("a test", "key")

    rounds = threading.Event()
    options = LoopMonitorOptions(run=tmp_path, instance="a", find=find, each_round=rounds.set)

    def seen(there: bool, works: bool = False, seconds: float = 20.0) -> bool:
        deadline = time.monotonic() + seconds
        while (stalls.read(tmp_path, "a", os.getpid()) is not None) is not there:
            if time.monotonic() > deadline:
                return False
            if not works:
                time.sleep(0.02)
        return True

    monitor = LoopMonitor(options)
    monitor.start()
    await asyncio.sleep(0.05)
    assert not seen(True, seconds=0.4)  # a loop that gets no processor
    await asyncio.sleep(0.1)
    assert seen(True, works=True)  # in the loop, which it holds
    assert await asyncio.to_thread(seen, False)
    monitor.close()
    assert len(frames) == 1
    assert rounds.is_set()


def test_usage_of_running_and_missing_processes() -> None:
    mine = usage_of(os.getpid())
    assert mine is not None
    assert mine.cpu_s > 0
    assert mine.runnable
    init = usage_of(1)
    assert init is None or not init.runnable or init.cpu_s >= 0
    assert usage_of(2**30) is None
