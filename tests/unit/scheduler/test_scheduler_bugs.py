"""Bugs met while one pod is scheduled: counted, logged, and the pod is tried again; the process and others go on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.scheduler.actor import Scheduler
from actors.scheduler.claims import device_fit, explanations
from actors.scheduler.claims.device_fit import DeviceFit
from actors.scheduler.claims.explanations import Explanations
from actors.scheduler.cycles.failed_attempts import FailedAttempts
from actors.scheduler.nodes.node_cache import Cache
from actors.scheduler.preemption.planner import Planner
from protocols.process.tasks import FAILURES
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import (
    Life,
    devices,
    leaving,
    node_of,
    put_claim,
    put_class,
    put_node,
    put_pod,
    put_slice,
    running,
    says,
    until,
    using,
)

Met = Callable[[MemoryApi], bool]


def is_bound(api: MemoryApi) -> bool:
    return node_of(api, "p") == "n1"


def has_preempted(api: MemoryApi) -> bool:
    return leaving(api) == ["low"]


def is_reported(api: MemoryApi) -> bool:
    return "1 cannot allocate all claims" in says(api, "p")


CASES: dict[str, tuple[type, str, str, Met]] = {
    "scheduling": (Cache, "feasible", "scheduling cycle", is_bound),
    "after binding": (Scheduler, "_drop", "binding cycle", is_bound),
    "plan": (Planner, "plan", "preemption", has_preempted),
    "following a plan": (FailedAttempts, "_preempt", "preemption", has_preempted),
    "search": (DeviceFit, "search_in_turns", "device search", is_bound),
    "following a search": (FailedAttempts, "searched", "device search", is_bound),
    "explanation": (Explanations, "_explain", "explanation", is_reported),
}
"""What fails, under which kind it is counted, and what comes about all the same."""


def create(api: MemoryApi, met: Met) -> None:
    put_class(api)
    put_node(api, "n1", pods=1 if met is has_preempted else 10)
    put_slice(api, "n1", *devices(1))
    if met is has_preempted:
        running(api, "low", "n1")
    if met is is_reported:
        using(api, "equal", "n1", 0, priority=5)


@pytest.mark.parametrize("case", CASES)
async def test_bug_ends_one_attempt_of_one_pod(
    case: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    owner, name, kind, met = CASES[case]
    works, calls = getattr(owner, name), 0

    def breaks(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        task = asyncio.current_task()
        if name == "_drop" and (task is None or not task.get_name().startswith("pod ")):
            return works(*arguments, **options)  # called by the informer
        calls += 1
        if calls == 1:
            raise ZeroDivisionError("a bug")
        return works(*arguments, **options)

    monkeypatch.setattr(owner, name, breaks)
    if "search" in case:
        monkeypatch.setattr(device_fit, "NODE_AT_ONCE_S", -1.0)
        monkeypatch.setattr(device_fit, "TURN_STEPS", 1)
    monkeypatch.setattr(explanations, "AT_ONCE_STEPS", 0)
    FAILURES.clear()
    api = MemoryApi()
    create(api, met)
    async with asyncio.timeout(30), Life(api):
        if met is has_preempted:
            put_pod(api, "p", priority=5)
        else:
            put_claim(api, "c")
            put_pod(api, "p", "c", priority=5)
        await until("it goes on", lambda: met(api))
        await until("counted", lambda: FAILURES[kind] == 1)
        if met is is_bound:
            put_pod(api, "next")
            await until("others go on", lambda: node_of(api, "next"))
    assert f"task {kind}" in caplog.text
    assert "failed: ZeroDivisionError: a bug" in caplog.text
