import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from actors.podworker.pods import manager as manager_module
from actors.podworker.pods.environment.references import CONFIG_MAP
from actors.podworker.pods.manager import ManagerOptions, PodManager
from actors.podworker.pods.volumes.paths import VolumePaths
from actors.podworker.pods.workers.worker import PodWorker
from protocols.bus import Unavailable
from protocols.lifecycle.errors import PodInvalid
from protocols.lifecycle.pods.types import SECOND, PodSpec, PodStage, read_pod
from protocols.messages.pleg import PodStatus
from protocols.process.tasks import FAILURES
from protocols.wire import cri_pb2
from tests.support.podworker_fakes import FakeDependencies, container, pod
from tests.support.waiting import until_true

DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


@asynccontextmanager
async def running_manager(tmp_path: Path) -> AsyncIterator[Any]:
    fake = FakeDependencies(tmp_path)
    options = ManagerOptions(fake.deps, lambda: "nodeplane", lambda uid: None, started_ns=0)
    manager = PodManager(options)
    fake.runtime.changed = lambda uid: asyncio.get_running_loop().call_soon(told, uid)

    def told(uid: str) -> None:
        from protocols.bus import Op

        fake.pleg.deliver(uid)
        manager.on_status(Op.UPSERT, uid, fake.pleg.known(uid), None)

    try:
        yield fake, manager
    finally:
        manager.close()


async def test_nothing_is_done_before_begin(tmp_path: Path) -> None:
    async with running_manager(tmp_path) as (fake, manager):
        manager.on_add(pod())
        await asyncio.sleep(0.02)
        assert not fake.runtime.calls
        manager.begin([])
        await until_true(lambda: fake.runtime.running("a"))
        assert manager.active() == ("uid-1",)


async def test_changed_config_map_is_read_once_and_updates_the_volumes_of_idle_pods(tmp_path: Path) -> None:
    volumes = [{"name": "v", "configMap": {"name": "c"}}]
    pods = [read_pod(pod(container("a"), uid=f"uid-{number}", volumes=volumes)) for number in range(3)]
    async with running_manager(tmp_path) as (fake, manager):

        def shown() -> list[str]:
            return [(VolumePaths(spec, tmp_path).path("v") / "k").read_text() for spec in pods]

        fake.objects.items[CONFIG_MAP, "c"] = {"metadata": {"resourceVersion": "1"}, "data": {"k": "old"}}
        manager.begin([])
        for spec in pods:
            manager.on_add(spec.raw)
        await until_true(lambda: all(w._suppression.idle for w in manager._workers.values()))
        reads = fake.objects.reads
        await manager.resync()
        assert fake.objects.reads == reads + 1
        assert not any(worker._woken.is_set() for worker in manager._workers.values())
        fake.objects.items[CONFIG_MAP, "c"] = {"metadata": {"resourceVersion": "2"}, "data": {"k": "new"}}
        await manager.resync()
        await until_true(lambda: shown() == ["new"] * 3)
        reads = fake.objects.reads
        for worker in manager._workers.values():
            worker.state.stage = PodStage.TERMINATED
        await manager.resync()
        assert fake.objects.reads == reads, "files of pods that have ended are not updated"


async def test_a_name_taken_again_is_another_pod(tmp_path: Path) -> None:
    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(pod())
        await until_true(lambda: fake.runtime.running("a"))
        manager.on_delete(pod())
        manager.on_add(pod(uid="uid-2"))
        await until_true(lambda: [c.uid for c in fake.runtime.running("a")] == ["uid-2"])
        await until_true(lambda: fake.devices.released == ["uid-1"])  # a step after its container's end


async def test_pod_that_comes_back_while_it_is_ended_is_started_again(tmp_path: Path) -> None:
    """A restored backup binds it again, with its uid, while the node still ends what ran of it."""
    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(pod())
        await until_true(lambda: fake.runtime.running("a"))
        first = fake.runtime.running("a")[0].id
        manager.on_delete(pod())
        manager.on_add(pod())
        await until_true(lambda: [c.id for c in fake.runtime.running("a")] not in ([], [first]))
        assert manager.active() == ("uid-1",)


@pytest.mark.parametrize("again", [True, False])
async def test_pod_that_the_watch_still_shows_after_its_deletion_is_deleted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """A backup that was restored after the deletion lacks it; the watch may take seconds to show one that it has."""
    monkeypatch.setattr(manager_module, "UNSHOWN_S", 0.0 if again else 60.0)
    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(pod())
        await until_true(lambda: fake.runtime.running("a"))
        manager.on_update(pod(), pod(metadata=DELETING))
        await until_true(lambda: not manager.has_worker("uid-1"))
        manager.repeat_lost()
        assert manager.has_worker("uid-1") is again
        await until_true(lambda: fake.pods.deleted == ["uid-1"] * (1 + again))
        manager.on_delete(pod(metadata=DELETING))
        await until_true(lambda: not manager.has_worker("uid-1"))
        manager.repeat_lost()
        assert fake.pods.deleted == ["uid-1"] * (1 + again)


async def test_sandbox_made_after_the_end_of_its_pod_and_before_the_api_forgets_it_is_removed(tmp_path: Path) -> None:
    async with running_manager(tmp_path) as (fake, manager):
        finished: list[str] = []
        manager.subscribe(finished.append)
        manager.begin([])
        manager.on_add(pod())
        await until_true(lambda: fake.runtime.running("a"))
        deleting = pod(metadata=DELETING)
        manager.on_update(pod(), deleting)
        await until_true(lambda: finished == ["uid-1"])
        await fake.runtime.run_sandbox(cri_pb2.PodSandboxConfig(metadata=cri_pb2.PodSandboxMetadata(uid="uid-1")), "")
        await until_true(lambda: fake.pleg.known("uid-1") is not None)
        manager.on_delete(deleting)
        await until_true(lambda: not fake.runtime.sandboxes)
        await until_true(lambda: finished == ["uid-1", "uid-1"])


@pytest.mark.parametrize("step_ns", [0, SECOND], ids=["true clock", "clock that goes back"])
async def test_sandbox_made_while_the_api_removes_its_pod_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    """The pod worker saw none before it asked the API for that, and does not ask the runtime again.

    The time of the stream's status says nothing if the clock went meanwhile.
    """
    async with running_manager(tmp_path) as (fake, manager):
        deleting, known = pod(metadata=DELETING), fake.pleg.known

        def shown(uid: str) -> PodStatus | None:
            status: PodStatus | None = known(uid)
            return status and structs.replace(status, timestamp_ns=status.timestamp_ns + step_ns)

        async def delete(spec: PodSpec) -> None:
            manager.on_delete(deleting)
            metadata = cri_pb2.PodSandboxMetadata(uid="uid-1")
            await fake.runtime.run_sandbox(cri_pb2.PodSandboxConfig(metadata=metadata), "")
            await until_true(lambda: known("uid-1") is not None)
            monkeypatch.setattr(fake.pleg, "known", shown)

        monkeypatch.setattr(fake.pods, "delete", delete)
        manager.begin([])
        manager.on_add(deleting)
        await until_true(lambda: "run_sandbox" in str(fake.runtime.calls))
        await until_true(lambda: not fake.runtime.sandboxes and not manager.has_worker("uid-1"))


async def test_finished_pod_whose_status_was_replaced_is_reported_again_and_deleted(tmp_path: Path) -> None:
    """Else nobody would send its status, for which its deletion waits: it was sent before a backup was restored."""
    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(pod(container("a"), policy="Never"))
        await until_true(lambda: fake.runtime.running("a"))
        fake.runtime.end(fake.runtime.running("a")[0].id, 0)
        await until_true(lambda: fake.devices.released == ["uid-1"] and fake.statuses.last["phase"] == "Succeeded")
        fake.statuses.away = True
        fake.statuses.history.clear()
        manager.on_update(pod(), pod(container("a"), policy="Never", metadata=DELETING))
        await until_true(lambda: fake.statuses.history)
        assert not fake.pods.deleted
        fake.statuses.away = False
        manager.on_settled("uid-1")
        await until_true(lambda: fake.pods.deleted == ["uid-1"])


async def test_ended_pods_hold_no_devices(tmp_path: Path) -> None:
    async with running_manager(tmp_path) as (_fake, manager):
        manager.on_add(pod(status={"phase": "Succeeded"}))
        manager.on_add(pod(uid="uid-2"))
        assert manager.active() == ("uid-2",)


async def test_pod_that_another_client_failed_holds_its_devices_until_it_ends(tmp_path: Path) -> None:
    async with running_manager(tmp_path) as (fake, manager):
        manager.on_add(pod())
        manager.begin([])
        await until_true(lambda: fake.runtime.running("a"))
        fake.runtime.fail["stop_container"] = [Unavailable("away")] * 1000
        manager.on_update(pod(), pod(status={"phase": "Failed"}))
        manager.wake_all()
        await until_true(lambda: fake.runtime.count("stop_container"))
        assert manager.active() == ("uid-1",)
        fake.runtime.fail["stop_container"] = []
        await until_true(lambda: fake.devices.released and manager.active() == ())


async def test_an_unreadable_pod_disturbs_no_other(tmp_path: Path) -> None:
    bad: Any = pod(container("a"), uid="bad")
    bad["spec"]["containers"] = ["not a container"]
    with pytest.raises(PodInvalid):
        read_pod(bad)

    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(bad)
        manager.on_add(pod())
        await until_true(lambda: fake.runtime.running("a"))
        manager.on_update(pod(), {**bad, "metadata": pod()["metadata"]})
        assert len(fake.runtime.running("a")) == 1


@pytest.mark.parametrize("deleted", [False, True])
async def test_crashed_worker_is_replaced_and_its_devices_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, deleted: bool
) -> None:
    """An exception outside a sync ended the worker: the pod counted as finished, with its containers still there."""
    failures = FAILURES["pod worker"]
    async with running_manager(tmp_path) as (fake, manager):
        finished: list[str] = []
        manager.subscribe(finished.append)
        manager.begin([])
        manager.on_add(pod())
        await until_true(lambda: fake.runtime.running("a"))
        broken = True

        def breaks(worker: PodWorker) -> None:
            if broken:
                raise ZeroDivisionError("a bug")

        monkeypatch.setattr(PodWorker, "_set_timer", breaks)
        manager.wake_all()
        await until_true(lambda: FAILURES["pod worker"] >= failures + 1)
        if deleted:
            manager.on_delete(pod())
        assert finished == []
        assert manager.active() == ("uid-1",)
        assert fake.devices.released == []
        assert "task pod worker uid-1 failed: ZeroDivisionError: a bug" in caplog.text
        broken = False
        if not deleted:
            manager.on_delete(pod())
        await until_true(lambda: finished == ["uid-1"])
        assert not fake.runtime.running("a")
        assert fake.devices.released == ["uid-1"]


def wanting(uid: str, cpu: str, **more: Any) -> Any:
    return pod(container("a", resources={"requests": {"cpu": cpu}}), uid=uid, **more)


@pytest.mark.parametrize(("inspected", "wanted_cpu"), [(True, "6"), (False, "6"), (True, "60")])
async def test_pods_that_run_are_counted_before_others_are_judged(
    tmp_path: Path, inspected: bool, wanted_cpu: str
) -> None:
    """Also when pleg starts at the same time, as with a whole node, and has inspected none of them.

    A pod that is resized to what the node has not counts as its status shows it.
    """
    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(wanting("old", "6"))
        await until_true(lambda: fake.runtime.running("a"))
        manager.close()
        again = PodManager(ManagerOptions(fake.deps, lambda: "nodeplane", lambda uid: None, started_ns=1))
        fake.local_node.seen["status"]["allocatable"]["cpu"] = "7"
        fake.local_node.seen["metadata"]["labels"] = {}
        newest = {"creationTimestamp": "2026-01-03T00:00:00Z"}
        for uid, day in (("newest", "03"), ("newer", "02"), ("old", "01")):
            newest = {"creationTimestamp": f"2026-01-{day}T00:00:00Z"}
            selector = {"nodeSelector": {"gone": "label"}} if uid == "old" else {}
            raw = wanting(uid, wanted_cpu if uid == "old" else "1", metadata=newest, **selector)
            if uid == "old":
                raw["status"] = {"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "6"}}}]}
            again.on_add(raw)
        if not inspected:
            fake.pleg.stream.clear()
        again.begin([("old", "ns", "p")], {"old"})
        await until_true(lambda: fake.statuses.reasons().get("newest"))
        assert fake.statuses.reasons() == {"newest": "OutOfcpu"}, "a running pod keeps its room, whatever the node is"
        again.close()


async def test_critical_pod_ends_another_one_and_starts(tmp_path: Path) -> None:
    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(wanting("plain", "6"))
        await until_true(lambda: fake.runtime.running("a"))
        manager.on_add(wanting("critical", "6", priority=2_000_000_000))
        await until_true(lambda: [c.uid for c in fake.runtime.running("a")] == ["critical"])
        assert fake.statuses.reasons() == {"plain": "Preempting"}
        (disrupted,) = [c for c in fake.statuses.by_uid["plain"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (disrupted["status"], disrupted["reason"]) == ("True", "TerminationByKubelet")
        assert ("Warning", "Preempting", "Preempted in order to admit critical pod") in fake.recorder.events
