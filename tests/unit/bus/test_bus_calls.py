"""Open calls and remembered replies: once-only effects, prompt failures, bounded tables."""

import asyncio
import time
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.bus.calls import OPEN_LIMIT, CallTable
from protocols.bus.channel import Counters
from protocols.bus.errors import DeadlineExceeded, ResourceExhausted, Unavailable
from protocols.bus.frames import EMPTY, VERSION, RequestFrame
from protocols.bus.service import BusService, RequestVerdict, ServedLimits, ServedRequests
from protocols.bus.types import BusOptions
from protocols.messages.supervisor import Empty


def table() -> CallTable:
    return CallTable("callee", "me")


def test_calls_ids_are_unique_and_deadline_is_time_left() -> None:
    calls = table()
    first, second = calls.open("m", b"", 10.0, False), calls.open("m", b"", 10.0, False)
    assert (first.id, second.id) == ("me:1", "me:2")
    assert calls.request(first, 8.5).ttl_ms == 1500
    assert calls.request(first, 11.0).ttl_ms == 0


def test_calls_connection_lost_fails_only_non_idempotent() -> None:
    calls = table()
    unsent, once, again = (calls.open("m", b"", 10.0, idempotent) for idempotent in (False, False, True))
    calls.went(once, 1.0)
    calls.went(again, 1.0)
    assert calls.lost(2.0) == [once]
    assert calls.due(2.0) == [unsent]
    assert calls.next_due() == 0.0
    assert calls.due(2.1) == [unsent, again]


def test_calls_retries_back_off() -> None:
    calls = table()
    call = calls.open("m", b"", 1000.0, True)
    waits = []
    for _ in range(9):
        calls.went(call, 0.0)
        calls.lost(0.0)
        waits.append(call.resend_at)
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_calls_another_epoch_means_callee_died() -> None:
    calls = table()
    before = calls.open("m", b"", 10.0, False)
    calls.went(before, 0.0)
    assert calls.heard(7, 0.1) == []
    assert before.epoch == 7
    assert calls.heard(8, 0.2) == [before]
    assert len(calls) == 0


def test_calls_past_deadline_fail() -> None:
    calls = table()
    call = calls.open("m", b"", 1.0, False)
    assert isinstance(calls.late(call), Unavailable)
    calls.went(call, 0.0)
    assert isinstance(calls.late(call), DeadlineExceeded)
    assert calls.waiting_since(0.5)
    assert calls.close(call.id) is call
    assert not calls.waiting_since(0.5)


def test_calls_open_are_bounded() -> None:
    calls = table()
    for _ in range(OPEN_LIMIT):
        calls.open("m", b"", 1.0, True)
    with pytest.raises(ResourceExhausted):
        calls.open("m", b"", 1.0, True)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.booleans()), max_size=40))
def test_replies_remembered_id_never_runs_again(steps: list[tuple[str, bool, bool]]) -> None:
    served = ServedRequests(ServedLimits(running=3, replies=2, reply_bytes=100))
    running: set[str] = set()
    kept: list[str] = []
    for id, finish, keep in steps:
        if finish and id in running:
            running.discard(id)
            assert served.done(id, id.encode(), keep) == b"peer"
            kept = [*kept, id][-2:] if keep else kept
        elif not finish:
            expected = RequestVerdict.WAIT if id in running else RequestVerdict.REPLAY if id in kept else None
            verdict = served.judge(id, b"peer")
            assert verdict is (expected or (RequestVerdict.FULL if len(running) == 3 else RequestVerdict.RUN))
            running |= {id} if verdict is RequestVerdict.RUN else set()
    assert served.running == len(running)


def test_calls_are_served_while_all_containers_of_a_full_node_end() -> None:
    """Each of 110 pods with several containers holds a call of StopContainer for its whole grace period."""
    served = ServedRequests(ServedLimits(running=BusOptions(name="cri", run_dir=Path("/run")).handlers))
    stops = {served.judge(f"stop-{number}", b"podworker") for number in range(110 * 8)}
    assert stops | {served.judge("list", b"pleg")} == {RequestVerdict.RUN}


def test_replies_retry_on_new_connection_is_answered_there() -> None:
    served = ServedRequests()
    assert served.judge("a", b"old") is RequestVerdict.RUN
    assert served.judge("a", b"new") is RequestVerdict.WAIT
    assert served.done("a", b"reply", keep=True) == b"new"
    assert served.judge("a", b"newer") is RequestVerdict.REPLAY
    assert served.reply("a") == b"reply"


def test_replies_remembered_are_bounded_in_bytes() -> None:
    served = ServedRequests(ServedLimits(replies=100, reply_bytes=10))
    for id in ("a", "b"):
        served.judge(id, b"")
        served.done(id, b"12345678", keep=True)
    assert served.judge("a", b"") is RequestVerdict.RUN
    assert served.judge("b", b"") is RequestVerdict.REPLAY


async def test_service_request_that_is_late_before_it_begins_leaves_no_trace() -> None:
    """It was cancelled before its first step, and counted as running for good."""
    service = BusService(1, Mock(), Counters(), Mock())
    service.serve("m", Empty, AsyncMock(return_value=None))
    for number in range(3):
        service.request(b"peer", RequestFrame(VERSION, f"{number}", "m", 1, False, EMPTY))
        time.sleep(0.002)  # noqa: ASYNC251  # the rest of this turn of the loop
        service.on_tick()
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (service._served.running, service._counters.refused) == (0, 0)
    await service.close()
