"""What a pod's worker takes as a status that is newer than its changes of the runtime."""

import asyncio
from functools import partial

import msgspec
import pytest

from actors.podworker.pods.workers import context
from actors.podworker.pods.workers.context import RuntimeObserver
from protocols.lifecycle.pods.runtime_status import shows_exit, shows_runs, shows_stopped
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus

NOW = 2_000_000_000 * 10**9


def container(state: str, attempt: int = 0) -> ContainerStatus:
    return ContainerStatus(f"c{attempt}", "s", "main", attempt, state, created_ns=1)


def status(*containers: ContainerStatus, ready: bool = True) -> PodStatus:
    sandbox = SandboxStatus("s", ready, 0, created_ns=1)
    return PodStatus(uid="u", timestamp_ns=NOW - 5, sandboxes=(sandbox,), containers=containers)


class Pleg:
    def __init__(self, evented: bool = True) -> None:
        self.stream: PodStatus | None = status()
        self.is_evented = evented
        self.asked = 0

    def known(self, uid: str) -> PodStatus | None:
        return self.stream

    def evented(self) -> bool:
        return self.is_evented

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        self.asked += 1
        return msgspec.structs.replace(status(container("running")), timestamp_ns=min_ns + 1)


RUNS = partial(shows_runs, "s", {("main", 0)})


async def test_start_that_an_event_shows_needs_no_inspection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "EFFECT_S", 600.0)
    pleg = Pleg()
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.changed(RUNS)
    asked = asyncio.ensure_future(observer.status())
    for shown in (status(container("created")), status(container("running"))):
        await asyncio.sleep(0)
        assert not asked.done()
        pleg.stream = shown
        observer.moved()
    assert await asked is pleg.stream
    assert await observer.status() is pleg.stream
    assert pleg.asked == 0


async def test_start_that_no_event_shows_is_inspected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "EFFECT_S", 0.001)
    pleg = Pleg()
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.changed(RUNS)
    assert (await observer.status()).timestamp_ns == NOW + 1
    assert pleg.asked == 1


async def test_start_without_an_event_stream_is_inspected_at_once() -> None:
    pleg = Pleg(evented=False)
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.changed(RUNS)
    assert (await observer.status()).timestamp_ns == NOW + 1


async def test_status_that_is_older_than_the_answer_leads_to_another_question() -> None:
    """Simulated seed 20006 of `node`: pleg began anew, and what it showed then counted as older for ever."""
    pleg = Pleg()
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.mutated()
    await observer.status()
    await observer.status()
    assert pleg.asked == 1
    pleg.stream = msgspec.structs.replace(status(container("exited")), timestamp_ns=0)
    observer.moved()
    await observer.status()
    assert pleg.asked == 2


async def test_another_change_while_an_event_is_waited_for_is_inspected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "EFFECT_S", 600.0)
    pleg = Pleg()
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.changed(RUNS)
    asked = asyncio.ensure_future(observer.status())
    await asyncio.sleep(0)
    observer.mutated()
    assert (await asked).timestamp_ns == NOW + 1


async def test_all_effects_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "EFFECT_S", 600.0)
    pleg = Pleg()
    pleg.stream = status(container("exited"), container("running", 1))
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.changed(partial(shows_exit, "c0"))
    observer.changed(partial(shows_exit, "c1"))
    asked = asyncio.ensure_future(observer.status())
    await asyncio.sleep(0)
    assert not asked.done()
    pleg.stream = status(container("exited"), container("exited", 1))
    observer.moved()
    assert await asked is pleg.stream


async def test_removed_pod_that_the_stream_drops_needs_no_inspection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "EFFECT_S", 600.0)
    pleg = Pleg()
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.mutated()
    asked = asyncio.ensure_future(observer.is_dropped())
    await asyncio.sleep(0)
    assert not asked.done()
    pleg.stream = None
    observer.moved()
    assert await asked
    assert pleg.asked == 0


async def test_removed_pod_that_the_stream_retains_is_inspected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "EFFECT_S", 0.001)
    assert not await RuntimeObserver("u", Pleg(), lambda: NOW).is_dropped()
    assert not await RuntimeObserver("u", Pleg(evented=False), lambda: NOW).is_dropped()


def test_effects_of_calls() -> None:
    assert not RUNS(status(container("created")))
    assert RUNS(status(container("exited")))
    assert not shows_runs("s", {("main", 1)}, status(container("running")))
    assert not shows_runs("other", {("main", 0)}, status(container("running")))
    assert shows_exit("removed", status(container("running")))
    assert not shows_exit("c0", status(container("unknown")))
    assert not shows_stopped(["s"], status())
    assert shows_stopped(["s"], status(ready=False))
