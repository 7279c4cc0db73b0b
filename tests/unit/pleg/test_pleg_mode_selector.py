"""The PLEG mode and its publication."""

import asyncio
import time
from unittest.mock import AsyncMock, Mock

import pytest

from actors.pleg.shell.mode_selector import SUSPECT_S, WAITING_FOR_RELIST, ModeSelector, ModeSelectorOptions
from actors.pleg.shell.relister import Relister, RelisterOptions
from actors.pleg.shell.runtime_client import Inspection
from actors.pleg.state_machine.lifecycle_events import RUNNING
from actors.pleg.state_machine.status_merger import StatusMerger
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import PlegState, PodStatus, SandboxStatus

STREAMING = RuntimeState(connected=True, streaming=True, events_supported=True)


def test_mode_events_trusted_is_evented() -> None:
    published: list[PlegState] = []
    merger = StatusMerger()
    selector = ModeSelector(
        ModeSelectorOptions(
            mode="auto",
            gate=True,
            merger=merger,
            on_state=published.append,
        )
    )
    selector.last_started = time.monotonic()
    selector.publish()
    selector.on_runtime(STREAMING)
    assert [state.mode for state in published] == ["generic", "generic"]
    assert published[-1].why == WAITING_FOR_RELIST
    assert selector.plan.period_s > 100, "that one list is asked for, so no others are"
    merger.trusted = True
    selector.on_relist()
    assert published[-1].mode == "evented"
    merger.trusted = False
    selector.publish()
    assert (published[-1].mode, published[-1].why) == ("generic", WAITING_FOR_RELIST)
    selector.on_runtime(RuntimeState(connected=True, events_supported=True))
    assert published[-1].why == "no event stream yet"


async def test_timestamps_of_an_idle_node_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a step of the runtime's clock that was undone: nothing else leads to an inspection."""
    now, status = [1_000.0], PodStatus("uid-1", sandboxes=(SandboxStatus("s1", True, 0, 1),))
    monkeypatch.setattr("actors.pleg.shell.mode_selector.time", Mock(monotonic=lambda: now[0], time_ns=time.time_ns))
    merger = StatusMerger(trusted=True)
    selector = ModeSelector(ModeSelectorOptions("auto", True, merger, Mock()))
    selector.on_runtime(STREAMING)
    runtime = Mock(snapshot=AsyncMock(return_value={"uid-1": {"s1": RUNNING}}), inspect=AsyncMock())
    runtime.inspect.side_effect = lambda uid: Inspection(uid, status, time.time_ns(), 0, runtime.stamped)
    relister = Relister(RelisterOptions(merger, runtime, selector, Mock(), Mock(), Mock(), Mock()))
    for stamped, later, mode in (
        (False, 0, "hint"),
        (True, 0, "hint"),
        (True, SUSPECT_S, "evented"),
        (True, 900, "evented"),
    ):
        now[0], runtime.stamped = now[0] + later, stamped
        assert await relister._relist()
        assert selector.plan.mode.value == mode
    assert runtime.inspect.call_count == 2


def test_relist_of_the_evented_mode_is_not_overdue_when_its_stream_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    now, published = [1_000.0], list[PlegState]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    selector = ModeSelector(ModeSelectorOptions("auto", True, StatusMerger(trusted=True), published.append))
    selector.on_runtime(STREAMING)
    selector.last_started = now[0]
    selector.publish()
    now[0] += 290.0
    selector.on_runtime(RuntimeState(connected=True, events_supported=True))
    assert (published[-1].mode, published[-1].healthy) == ("generic", True)
    now[0] += 180.5
    selector.publish()
    assert published[-1].message == "pleg was last seen active 7m50.5s ago; threshold is 3m0s"


async def test_health_is_checked_by_the_shorter_limit_of_a_new_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    now, published, waits = [1_000.0], list[PlegState](), list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    selector = ModeSelector(ModeSelectorOptions("auto", True, StatusMerger(trusted=True), published.append))
    selector.on_runtime(STREAMING)
    selector.last_started = now[0]

    def timeout(seconds: float) -> asyncio.Timeout:
        waits.append(seconds)
        return asyncio.Timeout(None)

    monkeypatch.setattr(asyncio, "timeout", timeout)
    watch = asyncio.create_task(selector.watch_health())
    await asyncio.sleep(0)
    selector.on_runtime(RuntimeState(connected=True, events_supported=True))
    for _ in range(3):
        await asyncio.sleep(0)
    watch.cancel()
    assert waits == [600.0, 180.0]
