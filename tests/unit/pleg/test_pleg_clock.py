"""A clock that goes back: what is known of a later time counts no longer, on both sides of GetNewerThan."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.pleg.actor import PlegActor
from actors.pleg.state_machine.cri_status import pod_status
from actors.pleg.state_machine.status_cache import Rank, StatusCache
from actors.pleg.state_machine.status_merger import StatusMerger
from actors.podworker.pods.workers.context import RuntimeObserver
from protocols.lifecycle.pods.types import read_pod
from protocols.lifecycle.restarts.plan import compute_actions
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import STEP_NS, ContainerStatus, PodStatus, SandboxStatus
from protocols.wire import cri_pb2
from tests.support.podworker_fakes import container, pod

SECOND = 10**9
YEAR = 365 * 86_400 * SECOND
NOW = 2_000_000_000 * SECOND


def known(stamp: int) -> StatusCache:
    """A cache that knows pod u since an inspection, and a relist after it."""
    cache = StatusCache()
    assert cache.put(PodStatus(uid="u", timestamp_ns=stamp), stamp, Rank.INSPECTION, stamp)
    cache.observed("gone", stamp)
    cache.completed(stamp + 1)
    return cache


def test_nothing_is_newer_after_a_step_back_until_it_is_inspected_again() -> None:
    cache = known(NOW + YEAR)
    assert cache.newer_than("u", NOW), "so it was: stale for a year"
    assert cache.at(NOW)
    assert not cache.newer_than("u", NOW - YEAR)
    assert not cache.at(NOW), "once"
    assert cache.put(PodStatus(uid="u", timestamp_ns=NOW), NOW, Rank.EVENT), "events count again"
    assert cache.put(PodStatus(uid="gone"), NOW, Rank.EVENT)
    cache.observed("u", NOW + 5)
    assert cache.newer_than("u", NOW)


def test_step_back_that_is_seen_by_the_time_of_an_event_alone() -> None:
    """The last inspection is from before the time to which the clock went back."""
    cache = known(NOW)
    assert cache.put(PodStatus(uid="u", timestamp_ns=NOW), NOW + 60 * SECOND, Rank.EVENT)
    assert cache.at(NOW + 58 * SECOND)
    assert cache.put(PodStatus(uid="u", timestamp_ns=NOW), NOW + 58 * SECOND, Rank.INSPECTION)
    assert cache.drop("u", NOW + 90 * SECOND, Rank.EVENT)
    assert cache.at(NOW + 80 * SECOND)


def test_relist_after_a_step_back_sees_what_changed() -> None:
    merger = StatusMerger(known(NOW + YEAR))
    assert merger.relist(NOW, {}).vanished == []
    merger.cache.at(NOW)
    assert merger.relist(NOW, {}).vanished == ["u"]


@pytest.mark.parametrize("now", [NOW + YEAR, NOW + YEAR + 5, NOW + YEAR + 1 - STEP_NS, NOW + 2 * YEAR])
def test_small_steps_and_steps_ahead_change_nothing(now: int) -> None:
    cache = known(NOW + YEAR)
    assert not cache.at(now)
    assert cache.newer_than("u", NOW + YEAR)


def pleg_actor() -> PlegActor:
    """Return an actor whose event stream is open, in a process without others."""
    stream = SimpleNamespace(publish=lambda *event: None)
    context = SimpleNamespace(
        bus=SimpleNamespace(own=lambda name, source: stream),
        settings=SimpleNamespace(pleg_mode="auto", gate=lambda name: True),
        registry=CollectorRegistry(),
        note=lambda text: None,
        ready=lambda: None,
    )
    actor = PlegActor(cast("Any", context))
    actor._mode_selector.on_runtime(RuntimeState(connected=True, streaming=True))
    actor.on_synced(True)
    return actor


async def test_relist_after_a_gap_counts_although_the_clock_went_back_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else no event is merged before the clock has caught up: for an hour, if that was an hour ahead at boot."""
    actor, now = pleg_actor(), [NOW]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    actor.on_snapshot([], 0)
    now[0] -= 3600 * SECOND
    actor._mode_selector.last_started = time.monotonic() + 1
    actor._on_relist(0.1)
    assert actor._merger.trusted
    actor._mode_selector.last_started = 1.0
    actor._on_relist(0.1)
    assert not actor._merger.trusted, "it began before the gap"


class Pleg:
    def __init__(self, stamp: int) -> None:
        self.status = PodStatus(uid="u", timestamp_ns=stamp)
        self.asked: list[int] = []

    def known(self, uid: str) -> PodStatus:
        return self.status

    def evented(self) -> bool:
        return False

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        self.asked.append(min_ns)
        return PodStatus(uid=uid, timestamp_ns=min_ns + 1)


async def test_status_of_a_time_to_come_is_not_newer_than_a_change() -> None:
    """A container that was just started was started again, and its pod failed."""
    pleg = Pleg(NOW + YEAR)
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.mutated()
    assert (await observer.status()).timestamp_ns == NOW + 1
    assert pleg.asked == [NOW]


async def test_change_before_a_step_back_waits_for_no_time_to_come() -> None:
    clock, pleg = [NOW + YEAR], Pleg(0)
    observer = RuntimeObserver("u", pleg, lambda: clock[0])
    observer.mutated()
    clock[0] = NOW
    await observer.status()
    assert pleg.asked == [NOW]
    pleg.status = PodStatus(uid="u", timestamp_ns=NOW + 5)
    assert await observer.status() is pleg.status


async def test_answer_of_a_time_to_come_gives_way_to_what_is_published_later() -> None:
    """An inspection was under way while the clock went back: a container's end was not reported for as long as that."""
    pleg = Pleg(0)
    observer = RuntimeObserver("u", pleg, lambda: NOW)
    observer.mutated()
    observer._confirmed = PodStatus(uid="u", timestamp_ns=NOW + YEAR)
    pleg.status = PodStatus(uid="u", timestamp_ns=NOW + 2)
    assert await observer.status() == pleg.status


@pytest.mark.parametrize("seconds", [1, 60])
async def test_answer_from_before_a_step_back_gives_way_though_the_clock_has_caught_up(
    monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """Nothing was read in between: the end of a container counted as older than the answer, and was never shown."""
    clock, elapsed = [NOW], [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: elapsed[0])
    pleg = Pleg(0)
    observer = RuntimeObserver("u", pleg, lambda: clock[0])
    observer.mutated()
    await observer.status()
    clock[0], elapsed[0] = NOW + seconds * SECOND, 10 * SECOND
    pleg.status = PodStatus(uid="u", timestamp_ns=NOW - 5 * SECOND)
    await observer.status()
    assert pleg.asked == [NOW, NOW]


def test_after_half_a_second_back_nothing_is_newer_than_it_is() -> None:
    """A container was started twice: an inspection from before its start counted as newer than the start."""
    cache = StatusCache()
    cache.completed(NOW)
    assert cache.at(NOW - SECOND // 2)
    assert not cache.newer_than("u", NOW - SECOND // 4)


def test_container_created_after_a_step_back_is_the_newest() -> None:
    """With a runtime that stamps by the wall clock; else it was killed as a leftover of the run before it."""
    spec = read_pod(pod(container("a")))
    sandbox = SandboxStatus("s", True, attempt=0, created_ns=NOW)
    before = ContainerStatus("c0", "s", "a", 0, "exited", created_ns=NOW, finished_ns=NOW + SECOND, exit_code=1)
    now = ContainerStatus("c1", "s", "a", 1, "running", NOW - YEAR, NOW - YEAR, restart_count=1)
    status = pod_status(cri_pb2.PodSandboxMetadata(uid=spec.uid), [sandbox], [before, now], NOW - YEAR)
    assert [run.id for run in status.containers] == ["c1", "c0"]
    plan = compute_actions(spec, status, {}, NOW - YEAR)
    assert (plan.kill, plan.start) == ((), ())
