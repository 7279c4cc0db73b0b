"""The bugs that Evented PLEG had upstream: each test plays one and requires that our design does not have it.

Numbers are kubernetes/kubernetes issues unless another repository is named. 129818 was no fault of PLEG's; 122475 is
known by its number alone.
"""

import asyncio
import time
from typing import Any
from unittest.mock import Mock

import pytest

from actors.cri.event_stream import EventConnection, retry_delay
from actors.pleg.shell.relister import Relister, RelisterOptions
from actors.pleg.shell.runtime_client import Inspection, _agrees
from actors.pleg.state_machine.cri_status import sane_stamp
from actors.pleg.state_machine.status_cache import Rank, StatusCache
from actors.pleg.state_machine.status_merger import StatusChange, StatusMerger, must_inspect
from protocols.kinds import views
from protocols.lifecycle.pods.types import read_pod
from protocols.lifecycle.restarts.plan import compute_actions
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from protocols.wire import cri_pb2 as cri

UID, NOW = "u", 1_700_000_000 * 10**9
SECOND = 10**9


def pod(*containers: ContainerStatus, sandbox: str = "s1", attempt: int = 0) -> PodStatus:
    sandboxes = (SandboxStatus(id=sandbox, ready=True, attempt=attempt, created_ns=1, ip="10.0.0.1"),)
    return PodStatus(uid=UID, name="p", namespace="n", sandboxes=sandboxes, containers=containers)


def run(state: str, id: str = "c1") -> ContainerStatus:
    return ContainerStatus(id=id, sandbox_id="s1", name="main", attempt=0, state=state, created_ns=2)


def event(kind: int, id: str, created_at: int = NOW, sandbox: str = "s1") -> "cri.ContainerEventResponse":
    container = cri.ContainerStatus(id=id, metadata=cri.ContainerMetadata(name="main"), created_at=2)
    received = cri.PodSandboxStatus(id=sandbox, metadata=cri.PodSandboxMetadata(name="p", uid=UID), created_at=1)
    return cri.ContainerEventResponse(
        container_id=id,
        container_event_type=cri.ContainerEventType.Name(kind),
        created_at=created_at,
        pod_sandbox_status=received,
        containers_statuses=[container] if id != sandbox else [],
    )


def spec(policy: str = "Always") -> Any:
    container: views.Container = {"name": "main", "image": "i"}
    return read_pod(
        {"metadata": {"uid": UID, "name": "p"}, "spec": {"restartPolicy": policy, "containers": [container]}}
    )


@pytest.mark.scenario("120941", "120140", "121003")
def test_a_ticking_clock_releases_a_worker_with_stale_statuses() -> None:
    """The same container twice in one sandbox: the worker asked for news, and got the status from before its start."""
    acted = NOW
    ours = StatusCache()
    ours.put(pod(), NOW - SECOND, Rank.INSPECTION, NOW - SECOND)
    ours.put(pod(), NOW + SECOND, Rank.EVENT)
    assert not ours.newer_than(UID, acted), "only an inspection begun after the act releases"
    ours.put(pod(run("running")), NOW + 2, Rank.INSPECTION, NOW + 2)
    ours.observed(UID, NOW + 2)
    assert ours.newer_than(UID, acted)


@pytest.mark.scenario("121349", "123087")
def test_a_created_container_is_started_not_created_again() -> None:
    """Static pods whose ports were in use: `created` counted as `to be restarted`, by a second container."""
    plan = compute_actions(spec(), pod(run("created")), {}, NOW)
    assert [step.existing for step in plan.start] == ["c1"]


@pytest.mark.scenario("122124", "122763", "122778")
def test_a_created_container_is_retried() -> None:
    """The fix that was tried: skip what is `created`. A start that failed or was cut off then hangs."""
    assert compute_actions(spec("Never"), pod(run("created")), {}, NOW).start, "the start is made up for"


@pytest.mark.scenario("124297", "126414", "cri-o 8580")
@pytest.mark.parametrize(
    "stamp", [NOW * 4, 0, NOW // SECOND], ids=["124297 ns as seconds", "126414 none", "cri-o 8580 seconds"]
)
def test_stamps_of_another_unit_neither_block_nor_free_anything(stamp: int) -> None:
    assert sane_stamp(stamp, NOW) == 0, "taken for no stamp at all"
    ours = StatusMerger()
    taken = ours.event(event(cri.CONTAINER_STARTED_EVENT, "c1", stamp), NOW)
    assert taken.change is not None
    assert ours.cache.entries[UID].modified == NOW
    assert not ours.cache.newer_than(UID, NOW - SECOND), "an event releases nobody"


@pytest.mark.scenario("124704")
def test_missing_statuses_are_requested() -> None:
    """Deletion in 5 to 15 s: the worker waited for an event although nothing changed any more."""
    ours = StatusMerger()
    ours.inspected(UID, pod(run("exited")), NOW - SECOND)
    assert ours.inspected(UID, pod(run("exited")), NOW + 1) is None, "nothing changed"
    assert ours.cache.newer_than(UID, NOW), "and that is known now"


@pytest.mark.scenario("127814", "containerd 11323")
def test_a_timestamp_without_statuses_is_not_an_empty_pod() -> None:
    assert _agrees(NOW, [run("running")]) is False, "the runtime does not stamp"
    assert _agrees(NOW, []) is True
    assert _agrees(1, [run("running")]) is None, "made since"


@pytest.mark.scenario("129827")
def test_a_short_restart_of_the_runtime_does_not_end_events_for_good() -> None:
    ours, now = EventConnection(), 0.0
    for _ in range(5):
        now += ours.failed(now)
    assert now >= 0.4, "five attempts without a pause are over before the runtime is back"
    assert [retry_delay(failure) for failure in range(6, 12)] == [16, 32, 64, 60, 60, 60], "and it goes on"


class SlowRuntime:
    """A pod appears while the list is being made, after its answer was put together."""

    def __init__(self) -> None:
        self.appeared = 0

    async def snapshot(self) -> dict[str, dict[str, str]]:
        await asyncio.sleep(0.01)
        self.appeared = time.time_ns()
        await asyncio.sleep(0.01)
        return {}

    async def inspect(self, uid: str) -> Inspection:
        raise AssertionError("nothing to inspect")


def relisted(runtime: Any, period: float) -> tuple[StatusMerger, int, float]:
    """The ledger after the first relist, that relist's stamp, and when it was done."""
    merger, done = StatusMerger(), []

    async def whole() -> None:
        over = asyncio.Event()

        def on_relist(seconds: float) -> None:
            done.append((merger.cache.relisted_until, time.monotonic()))
            over.set()

        def nothing(*_: object) -> None:
            """Not looked at here."""

        relister = Relister(
            RelisterOptions(
                merger=merger,
                runtime=runtime,
                mode=Mock(plan=Mock(period_s=period)),
                on_change=nothing,
                on_relist=on_relist,
                on_inspected=nothing,
                on_failure=nothing,
            )
        )
        running = asyncio.ensure_future(relister.run())
        await asyncio.wait_for(over.wait(), 60)
        running.cancel()

    asyncio.run(whole())
    return merger, *done[0]


@pytest.mark.scenario("137778")
def test_the_first_relist_does_not_wait_for_the_period() -> None:
    """The node was NotReady for 300 s: health fails until one relist has succeeded."""
    began = time.monotonic()
    _, _, done = relisted(SlowRuntime(), 300.0)
    assert done - began < 60


@pytest.mark.scenario("137724")
def test_a_relist_takes_its_timestamp_before_it_lists() -> None:
    runtime = SlowRuntime()
    merger, stamp, _ = relisted(runtime, 300.0)
    assert stamp < runtime.appeared, "what appeared during the list does not count as seen"
    assert not merger.cache.newer_than(UID, runtime.appeared), "no caller learns that there is no such pod"


@pytest.mark.scenario("114371")
def test_an_event_without_a_sandbox_status_is_traced_by_its_container() -> None:
    received = event(cri.CONTAINER_DELETED_EVENT, "c1")
    received.ClearField("pod_sandbox_status")
    assert received.pod_sandbox_status.metadata.uid == ""
    ours = StatusMerger()
    ours.inspected(UID, pod(run("exited")), NOW)
    assert ours.owner_of("c1") == UID
    assert must_inspect(ours.cache.get(UID), received), "the pod is inspected"


def test_a_deletion_by_uid_wipes_the_pod_whose_newer_sandbox_runs() -> None:
    """Races 1 to 3 of the facts: DELETED of an older sandbox, and a late event after the deletion."""
    ours = StatusMerger()
    ours.inspected(UID, pod(run("running"), sandbox="s1", attempt=1), NOW)
    ours.event(event(cri.CONTAINER_DELETED_EVENT, "s0", NOW + 1, sandbox="s0"), NOW + 2)
    status = ours.cache.get(UID)
    assert status is not None
    assert [item.id for item in status.containers] == ["c1"]
    ours.inspected(UID, None, NOW + SECOND)
    ours.event(event(cri.CONTAINER_STARTED_EVENT, "c1", NOW + 1), NOW + 2 * SECOND)
    assert ours.cache.get(UID) is None


def test_a_relist_under_way_does_not_undo_a_later_event() -> None:
    """Race 13: listed at T0, the event of T1 > T0 comes first; T0's snapshot must not win."""
    ours = StatusMerger()
    ours.inspected(UID, pod(run("running")), NOW - SECOND)
    exited = event(cri.CONTAINER_STOPPED_EVENT, "c1", NOW + 1)
    exited.containers_statuses[0].state = cri.CONTAINER_EXITED
    assert ours.event(exited, NOW + 2).change is not None
    plan = ours.relist(NOW, {UID: {"s1": "running", "c1": "running"}})
    assert plan.inspect == []
    change: StatusChange | None = ours.inspected(UID, pod(run("running")), NOW)
    assert change is None


def test_answer_older_than_an_event_does_not_undo_it_whatever_the_clocks_say() -> None:
    """The runtime's clock is behind ours, so the inspection counted as newer than the event that overtook it."""
    ours = StatusMerger()
    ours.event(event(cri.CONTAINER_STARTED_EVENT, "c1", NOW - 10 * SECOND), NOW)
    before = ours.cache.entries[UID]
    exited = event(cri.CONTAINER_STOPPED_EVENT, "c1", NOW - 9 * SECOND)
    exited.containers_statuses[0].state = cri.CONTAINER_EXITED
    ours.event(exited, NOW)
    known = ours.cache.get(UID)
    assert known is not None
    assert known.containers[0].state == "exited"
    assert ours.inspected(UID, pod(run("running")), NOW, NOW - 9 * SECOND - 1, before) is None
    assert ours.cache.get(UID) == known
    before = ours.cache.entries[UID]
    assert ours.inspected(UID, pod(run("running")), NOW + 1, 0, before), "an answer after it is believed"


def test_stopped_before_started_does_not_bring_a_container_back() -> None:
    """Race 15, trap 16: the exit monitor is armed before the start is reported."""
    ours = StatusMerger()
    for kind, state, at in ((2, cri.CONTAINER_EXITED, NOW), (1, cri.CONTAINER_RUNNING, NOW + 1)):
        received = event(kind, "c1", at)
        received.containers_statuses[0].state = state
        ours.event(received, NOW + 2)
    status = ours.cache.get(UID)
    assert status is not None
    assert status.containers[0].state == "exited"
