import asyncio
import errno
import time
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from actors.podworker.model.dependencies import NodeInfo
from actors.podworker.pods.environment.references import SECRET
from actors.podworker.pods.volumes.directories import pods_with_directories, remove_directories
from actors.podworker.pods.workers import termination
from actors.podworker.pods.workers.metrics import PodMetrics
from actors.podworker.pods.workers.sync import PodSync
from actors.podworker.pods.workers.worker import MAX_SKIPPED, PodWorker, ResyncSuppression, WorkerOptions
from protocols.bus import FailedPrecondition, NotFound, Unavailable, error_for
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.admission import admit_request, rejection
from protocols.lifecycle.pods.types import SECOND, PodSpec, PodStage, read_pod
from protocols.messages.devices import ContainerGrant
from protocols.messages.health import (
    HeldContainer,
    HeldResource,
    PodHeld,
    PodResourceStatus,
    ResourceHealth,
    ResourceStatus,
)
from tests.support.podworker_fakes import container, pod, sidecar
from tests.support.podworker_scene import UID, Scene, at_work


async def test_a_pod_comes_up_and_goes_away(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
        fake = scene.fake
        assert scene.status["phase"] == "Running"
        assert [(reason, message) for _, reason, message in fake.recorder.events] == [
            ("Pulled", 'Container image "img:1" already present on machine and can be accessed by the pod'),
            ("Created", "Container created"),
            ("Started", "Container started"),
        ]
        assert (tmp_path / "logs" / "ns_p_uid-1" / "a").is_dir()
        scene.delete()
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
        assert fake.devices.released == [UID]
        assert fake.pods.deleted == [UID]
        assert not fake.runtime.sandboxes
        assert scene.status["phase"] == "Failed"
        assert scene.shown("a")["state"]["terminated"]["exitCode"] == 143
        assert ("Normal", "Killing", "Stopping container a") in fake.recorder.events
        assert not (tmp_path / "logs" / "ns_p_uid-1").exists()


async def test_a_stale_stream_never_leads_to_a_second_container(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(container("a"), inits=[container("i"), sidecar("s")]))
    scene.lagging = True
    scene.fake.runtime.exit_at_once["i"] = 0
    async with at_work(scene):

        async def nag() -> None:
            for _ in range(200):
                scene.worker.wake()
                await asyncio.sleep(0.001)

        await nag()
        await scene.running()
        assert scene.fake.runtime.count("run_sandbox") == 1
        assert scene.fake.runtime.count("create_container") == 3
        assert set(scene.fake.runtime.most_running.values()) == {1}


async def test_first_crash_restarts_at_once_then_backs_off(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
        runtime = scene.fake.runtime
        runtime.end(runtime.running("a")[0].id, 1)
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1 and scene.shown("a")["ready"])
        assert scene.shown("a")["lastState"]["terminated"]["exitCode"] == 1
        runtime.end(runtime.running("a")[0].id, 2)
        await scene.until(lambda: scene.shown("a")["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
        assert runtime.count("start_container") == 2
        assert "BackOff" in scene.fake.recorder.reasons()
        scene.skew_ns = 11 * SECOND
        scene.worker.wake()
        await scene.until(lambda: scene.shown("a").get("restartCount") == 2 and scene.shown("a")["ready"])


async def test_refused_admission_fails_the_pod(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.fake.devices.fail = [FailedPrecondition("not enough gpus", {"reason": "UnexpectedAdmissionError"})]
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert scene.status["reason"] == "UnexpectedAdmissionError"
        text = "Allocate failed due to not enough gpus, which is unexpected"
        assert scene.status["message"] == f"Pod was rejected: {text}"
        assert scene.fake.recorder.events == [("Warning", "UnexpectedAdmissionError", text)]
        assert not scene.fake.runtime.calls


@pytest.mark.parametrize("statuses", ["containerStatuses", "initContainerStatuses"])
async def test_worker_removed_pod_with_policy_never_is_rejected_before_it_is_lost(
    tmp_path: Path, statuses: Literal["containerStatuses", "initContainerStatuses"]
) -> None:
    """As after a reboot whose device plugin does not come back, also one in the init phase."""
    inits = statuses == "initContainerStatuses"
    raw = pod(container("a"), inits=[container("i")] if inits else [], restartPolicy="Never")
    running: views.ContainerStatus = {
        "name": "i" if inits else "a",
        "containerID": "nodeplane://c1",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    raw["status"] = {"phase": "Pending" if inits else "Running"}
    raw["status"][statuses] = [running]
    scene = Scene(tmp_path, raw)
    scene.fake.devices.fail = [FailedPrecondition("no healthy devices present", {"reason": "UnexpectedAdmissionError"})]
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert scene.status["reason"] == "UnexpectedAdmissionError"


def test_a_refusal_keeps_the_reason_and_the_words_of_who_refused() -> None:
    text = "Node didn't have enough resource: example.com/gpu, requested: 1, used: 0, capacity: 0"
    refused = rejection(FailedPrecondition(text, {"reason": "OutOfexample.com/gpu"}))
    assert refused is not None
    assert (refused.reason, refused.message) == ("OutOfexample.com/gpu", f"Pod was rejected: {text}")


async def test_refusals_are_counted_once_by_reasons_of_upstreams_list(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    scene = Scene(tmp_path, metrics=PodMetrics(registry))
    scene.fake.devices.fail = [FailedPrecondition("no", {"reason": "OutOfexample.com/gpu"})]
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        scene.worker.wake()
        name = "kubelet_admission_rejections_total"
        await scene.until(lambda: registry.get_sample_value(name, {"reason": "Other"}) == 1)


async def test_a_pod_asks_again_when_the_device_manager_has_lost_its_memory(tmp_path: Path) -> None:
    raw = pod(container("a", resources={"limits": {"example.com/gpu": "1"}}))
    scene = Scene(tmp_path, raw)
    scene.fake.devices.grants = {"a": ContainerGrant(held={"example.com/gpu": ("g0",)})}
    async with at_work(scene):
        await scene.running()
        scene.worker.readmit()
        await scene.until(lambda: len(scene.fake.devices.admitted) == 2)
        again = scene.fake.devices.admitted[1]
        assert (again.running, again.containers[0].held) == (True, {"example.com/gpu": ("g0",)})
        await scene.running()
        assert scene.fake.runtime.count("create_container") == 1


async def test_absent_device_manager_is_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.fake.devices.fail = [Unavailable("away"), Unavailable("away")]
    async with at_work(scene):
        await scene.running()
        assert len(scene.fake.devices.admitted) == 1


async def test_grants_reach_the_container_and_pre_start_comes_before_each_start(tmp_path: Path) -> None:
    raw = pod(container("a", resources={"limits": {"example.com/gpu": "2"}}, env=[{"name": "X", "value": "1"}]))
    scene = Scene(tmp_path, raw)
    held: dict[str, tuple[str, ...]] = {"example.com/gpu": ("g0", "g1")}
    scene.fake.devices.grants = {"a": ContainerGrant(envs={"GPUS": "0,1"}, held=held)}
    scene.fake.devices.warnings = ("two plugins want GPUS",)
    async with at_work(scene):
        await scene.running()
        item = scene.fake.runtime.running("a")[0]
        assert {e.key: e.value for e in item.config.envs} == {"X": b"1", "GPUS": b"0,1"}
        assert scene.fake.devices.admitted[0].containers[0].resources == {"example.com/gpu": 2}
        assert ("Warning", "DeviceConflict", "two plugins want GPUS") in scene.fake.recorder.events
        status = await scene.fake.pleg.newer_than(UID, 0)
        assert admit_request(read_pod(raw), runtime_status.live(status)).containers[0].held == held
        scene.fake.runtime.end(item.id, 1)
        await scene.until(lambda: len(scene.fake.devices.pre_started) == 2)


async def test_failing_pre_start_shows_config_error_and_other_containers_start(tmp_path: Path) -> None:
    asks = {"limits": {"example.com/gpu": "1"}}
    message = "device plugin PreStartContainer rpc failed with err: cold"

    scene = Scene(tmp_path, pod(container("a", resources=asks), container("b")))
    scene.fake.devices.fail_pre_start["a"] = FailedPrecondition(message)
    async with at_work(scene):
        await scene.running("b")
        waiting = {"reason": "CreateContainerConfigError", "message": message}
        await scene.until(lambda: scene.shown("a")["state"].get("waiting") == waiting)
        assert ("Warning", "Failed", f"Error: {message}") in scene.fake.recorder.events
        del scene.fake.devices.fail_pre_start["a"]
        scene.skew_ns += 20 * SECOND
        scene.worker.wake()
        await scene.running("a")


async def test_failed_start_shows_start_error_and_backs_off(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.fake.runtime.fail["start_container"] = [error_for("UNKNOWN", "exec: no such file")] * 2
    async with at_work(scene):
        await scene.until(lambda: scene.shown("a").get("lastState", {}).get("terminated"))
        ended = scene.shown("a")["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
        assert scene.shown("a")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert scene.fake.runtime.count("create_container") == 2
        assert ("Warning", "Failed", "Error: exec: no such file") in scene.fake.recorder.events


async def test_unsupported_configuration_is_said_and_others_start(tmp_path: Path) -> None:
    bad = container("b", env=[{"name": "S", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}])
    async with at_work(Scene(tmp_path, pod(bad, container("a")))) as scene:
        await scene.running("a")
        await scene.until(lambda: scene.shown("b")["state"]["waiting"]["reason"] == "CreateContainerConfigError")
        assert 'secret "x" not found' in scene.shown("b")["state"]["waiting"]["message"]
        assert scene.fake.runtime.most_running == {"a": 1}


async def test_a_failing_runtime_is_not_hammered(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.fake.runtime.fail["run_sandbox"] = [error_for("UNKNOWN", "no space")] * 100
    begun = time.monotonic()
    async with at_work(scene):
        for _ in range(300):
            scene.worker.wake()
            await asyncio.sleep(0.001)
        assert 1 <= scene.fake.runtime.count("run_sandbox") <= 4 + (time.monotonic() - begun)
        assert "FailedCreatePodSandBox" in scene.fake.recorder.reasons()


async def test_volumes_are_not_written_again_once_their_directories_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API answers an update's read after the removal: a Secret stayed on disk until the next start."""
    scene = Scene(tmp_path, pod(container("a"), volumes=[{"name": "v", "secret": {"secretName": "s"}}]))
    loop, gate, reading = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    objects, read = scene.fake.objects, scene.fake.objects.read
    objects.items[SECRET, "s"] = {"metadata": {"resourceVersion": "1"}, "data": {"k": ""}}

    async def held_back(kind: str, namespace: str, name: str) -> Object | None:
        reading.set()
        await gate.wait()
        return await read(kind, namespace, name)

    def removed_before_the_answer(node: NodeInfo, spec: PodSpec) -> None:
        remove_directories(node, spec)
        loop.call_soon_threadsafe(gate.set)
        time.sleep(0.1)

    monkeypatch.setattr(termination, "remove_directories", removed_before_the_answer)
    async with at_work(scene):
        await scene.running()
        monkeypatch.setattr(objects, "read", held_back)
        objects.items[SECRET, "s"] = {"metadata": {"resourceVersion": "2"}, "data": {"k": "bmV3"}}
        scene.worker.expire_volumes()
        scene.worker.wake()
        await reading.wait()
        scene.delete(grace=0)
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
    assert list(pods_with_directories(scene.fake.deps.node_info)) == []


async def test_full_disk_is_no_bug_and_the_pod_starts_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = list[str]()

    def without_room(path: str) -> None:
        tries.append(path)
        if len(tries) < 4:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(PodSync, "_make_log_directory", staticmethod(without_room))
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
    assert "No space left on device" in caplog.text
    assert "Traceback" not in caplog.text


async def test_completed_pod_frees_devices_and_keeps_its_containers(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(policy="Never"))
    scene.fake.runtime.exit_at_once["a"] = 0
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Succeeded")
        assert scene.fake.devices.released == [UID]
        assert len(scene.fake.runtime.containers) == 1
        assert scene.fake.runtime.count("start_container") == 1
        scene.delete()
        await scene.until(lambda: not scene.fake.runtime.containers and scene.fake.pods.deleted == [UID])


async def test_force_deleted_pod_is_killed_and_released(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
        scene.worker.removed_from_api()
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
        assert scene.fake.devices.released == [UID]
        assert not scene.fake.pods.deleted
        assert not scene.fake.runtime.sandboxes


async def test_shrunk_grace_stops_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
        stops: list[int] = []

        async def hang(container_id: str, grace: int) -> None:
            stops.append(grace)
            await asyncio.sleep(60 if grace > 5 else 0)
            scene.fake.runtime.end(container_id, 137)

        monkeypatch.setattr(scene.fake.runtime, "stop_container", hang)
        scene.delete(grace=30)
        await scene.until(lambda: stops == [30])
        scene.delete(grace=1)
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
        assert stops == [30, 2]


async def test_a_new_life_adopts_what_runs(tmp_path: Path) -> None:
    first = Scene(tmp_path)
    async with at_work(first):
        await first.running()
    second = Scene(tmp_path, {**first.raw, "status": first.status}, fence_ns=time.time_ns())
    second.fake.runtime.sandboxes, second.fake.runtime.containers = (
        first.fake.runtime.sandboxes,
        first.fake.runtime.containers,
    )
    second.lagging = True  # the stream is empty: pleg has not listed yet
    async with at_work(second):
        await second.until(lambda: second.fake.pleg.asked)
        await second.running()
        assert not second.fake.runtime.count("create_container")
        assert second.fake.devices.admitted[0].running
        assert second.fake.statuses.history == [first.status]


@pytest.mark.parametrize("shut_down", [True, False])
async def test_pod_is_admitted_as_present_only_with_a_live_sandbox(tmp_path: Path, shut_down: bool) -> None:
    """After a shutdown the runtime lists what has ended; the devices of such a pod must be healthy again."""

    first = Scene(tmp_path)
    async with at_work(first):
        await first.running()
    runtime = first.fake.runtime
    for item in list(runtime.containers.values()):
        runtime.end(item.id, 137)
    for box in runtime.sandboxes.values():
        box.ready = not shut_down
    second = Scene(tmp_path, {**first.raw, "status": first.status}, fence_ns=time.time_ns())
    second.fake.runtime.sandboxes, second.fake.runtime.containers = runtime.sandboxes, runtime.containers
    async with at_work(second):
        await second.until(lambda: second.fake.devices.admitted)
        assert second.fake.devices.admitted[0].present is not shut_down


async def test_a_stream_that_lost_the_pod_is_not_believed(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
        scene.fake.pleg.stream.clear()
        scene.worker.lost()
        asked = scene.fake.pleg.asked
        await scene.until(lambda: scene.fake.pleg.asked > asked)
        await asyncio.sleep(0.02)
        assert scene.fake.runtime.count("create_container") == 1


async def test_an_orphan_is_killed(tmp_path: Path) -> None:
    first = Scene(tmp_path)
    async with at_work(first):
        await first.running()
    orphan = Scene(tmp_path, spec=PodSpec(uid=UID, name="p", namespace="ns", grace=1), gone=True)
    orphan.fake.runtime.sandboxes, orphan.fake.runtime.containers = (
        first.fake.runtime.sandboxes,
        first.fake.runtime.containers,
    )
    orphan.fake.pleg.deliver(UID)
    async with at_work(orphan):
        await orphan.until(lambda: orphan.worker.state.stage is PodStage.FINISHED)
        assert not orphan.fake.runtime.sandboxes
        assert not orphan.fake.statuses.history


async def test_an_orphan_of_which_only_directories_are_left_is_removed(tmp_path: Path) -> None:
    """As after a kill between the pod's deletion in the API and the removal of its directories."""

    (tmp_path / "pods" / UID / "volumes").mkdir(parents=True)
    (tmp_path / "logs" / f"ns_p_{UID}").mkdir(parents=True)
    scene = Scene(tmp_path)
    found = list(pods_with_directories(scene.fake.deps.node_info))
    assert found == [(UID, "ns", "p"), (UID, "", "")]
    orphan = Scene(tmp_path, spec=PodSpec(uid=UID, name="p", namespace="ns", grace=1), gone=True)
    orphan.fake.pleg.deliver(UID)
    async with at_work(orphan):
        await orphan.until(lambda: orphan.worker.state.stage is PodStage.FINISHED)
    assert list(pods_with_directories(scene.fake.deps.node_info)) == []


async def test_the_runtime_remembers_a_pod_for_as_long_as_there_are_directories_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is killed in between leaves nothing that nobody knows of."""

    scene = Scene(tmp_path)
    logs, left = tmp_path / "logs" / "ns_p_uid-1", list[bool]()
    remove = scene.fake.runtime.remove_sandbox

    async def watched(sandbox_id: str) -> None:
        left.append(logs.exists())
        await remove(sandbox_id)

    monkeypatch.setattr(scene.fake.runtime, "remove_sandbox", watched)
    async with at_work(scene):
        await scene.running()
        assert logs.exists()
        scene.delete()
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
    assert left == [False]


async def test_deletion_interrupts_a_sync_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path)

    async def hang(image: str) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(scene.fake.runtime, "image", hang)
    async with at_work(scene):
        await scene.until(lambda: scene.fake.runtime.count("run_sandbox"))
        scene.delete()
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)


async def test_earlier_sandboxes_are_removed_with_their_last_container(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    runtime = scene.fake.runtime

    def back() -> bool:
        scene.skew_ns += 400 * SECOND
        scene.deliver()
        return bool(runtime.running("a"))

    async with at_work(scene):
        for _ in range(4):
            await scene.until(back)
            await runtime.stop_sandbox(max(runtime.sandboxes.values(), key=lambda box: box.created).id)
        await scene.until(back)
        await scene.until(lambda: len(runtime.sandboxes) == len(runtime.containers) == 2)
    text = "Pod sandbox changed, it will be killed and re-created."
    assert scene.fake.recorder.events.count(("Normal", "SandboxChanged", text)) == 4


@pytest.mark.scenario("I5")
@pytest.mark.parametrize("seed", range(6))
async def test_random_crashes_never_double_a_container(tmp_path: Path, seed: int) -> None:
    """Containers die, calls fail, the stream lags: I5 (never two of a name) holds and the pod comes back."""
    import random

    dice = random.Random(seed)
    scene = Scene(tmp_path, pod(container("a"), container("b"), inits=[sidecar("s")]))
    async with at_work(scene):
        runtime, counts = scene.fake.runtime, dict[str, int]()
        for _ in range(60):
            scene.lagging = dice.random() < 0.5
            scene.skew_ns += dice.choice((0, SECOND, 400 * SECOND))
            if dice.random() < 0.3:
                method = dice.choice(("run_sandbox", "create_container", "start_container"))
                runtime.fail[method] = [dice.choice((Unavailable("cri away"), error_for("UNKNOWN", "no")))]
            live = [c for c in runtime.containers.values() if c.state == "running"]
            if live and dice.random() < 0.5:
                runtime.end(dice.choice(live).id, dice.randint(0, 1))
            if dice.random() < 0.1:
                for box in list(runtime.sandboxes.values()):
                    box.ready = False
                    scene.changed(UID)
            scene.worker.wake()
            await asyncio.sleep(0.003)
            for entry in scene.status.get("containerStatuses", ()):
                assert entry["restartCount"] >= counts.get(entry["name"], 0)
                counts[entry["name"]] = entry["restartCount"]
        scene.lagging, runtime.fail = False, {}

        def back() -> bool:
            scene.skew_ns += 400 * SECOND
            scene.worker.retry()
            scene.deliver()
            return all(len(runtime.running(name)) == 1 for name in "abs")

        await scene.until(back)
        assert all(most == 1 for most in runtime.most_running.values())


async def test_a_pod_that_is_over_still_learns_how_its_devices_are(tmp_path: Path) -> None:
    def how(health: str) -> PodResourceStatus:
        shown = ResourceStatus("r/gpu", (ResourceHealth("g1", health),))
        return PodResourceStatus(UID, {"a": (shown,)})

    def entries(scene: Scene) -> list[tuple[str, str]]:
        told = scene.shown("a").get("allocatedResourcesStatus", [])
        return [(d["resourceID"], d["health"]) for e in told for d in e["resources"]]

    scene = Scene(tmp_path, pod(policy="Never"))
    fake = scene.fake
    fake.health.holds[UID] = held = PodHeld((HeldContainer("a", (HeldResource("r/gpu", ("g1",)),)),))
    scene.worker.set_device_health(how("Healthy"))
    async with at_work(scene):
        await scene.running()
        fake.runtime.end(next(iter(fake.runtime.containers)), 1)
        await scene.until(lambda: scene.status.get("phase") == "Failed" and UID in fake.health.over)
        fake.health.holds.clear()
        assert fake.health.over[UID] == held
        scene.worker.set_device_health(None)
        assert entries(scene) == [("g1", "Healthy")]
        scene.worker.set_device_health(how("Unhealthy"))
        await scene.until(lambda: entries(scene) == [("g1", "Unhealthy")])
        scene.worker.set_device_health(how("Unknown"))
        await scene.until(lambda: entries(scene) == [("g1", "Unknown")])
        scene.worker.set_device_health(None)
        await asyncio.sleep(0.05)
        assert entries(scene) == [("g1", "Unknown")]
        scene.delete()
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
        assert fake.health.over[UID] == PodHeld()


async def test_until_health_is_heard_a_status_keeps_what_it_showed(tmp_path: Path) -> None:
    before = [{"name": "r/gpu", "resources": [{"resourceID": "g1", "health": "Unhealthy"}]}]
    shown = {"phase": "Running", "containerStatuses": [{"name": "a", "allocatedResourcesStatus": before}]}
    scene = Scene(tmp_path, pod(status=shown))
    scene.fake.health.synced = False
    async with at_work(scene):
        await scene.running()
        assert scene.shown("a")["allocatedResourcesStatus"] == before
        scene.fake.health.synced = True
        scene.worker.wake()
        await scene.until(lambda: "allocatedResourcesStatus" not in scene.shown("a"))


def claimed_pod() -> views.Pod:
    named = container("a", resources={"claims": [{"name": "gpu"}]})
    return pod(named, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])


def allocated_claim() -> Object:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "dev-0"}
    status = {"reservedFor": [{"uid": UID}], "allocation": {"devices": {"results": [result]}}}
    return {"metadata": {"uid": "c-uid"}, "status": status}


async def test_claims_are_prepared_before_the_sandbox_and_given_back_after_the_containers(tmp_path: Path) -> None:
    scene = Scene(tmp_path, claimed_pod())
    fake = scene.fake
    fake.devices.cdi = {"a": ("gpu.example.com/device=dev-0",)}
    fake.devices.fail_claims = [FailedPrecondition("DRA driver gpu.example.com is not registered")]
    async with at_work(scene):
        await scene.until(lambda: "FailedPrepareDynamicResources" in fake.recorder.reasons())
        text = 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
        kind, _, told = fake.recorder.events[0]
        assert (kind, told) == (
            "Warning",
            f"Failed to prepare dynamic resources: prepare dynamic resources: {text}",
        )
        assert fake.devices.prepared == []
        fake.objects.items["ResourceClaim", "c"] = allocated_claim()
        await scene.running()
        assert any("DRA driver gpu.example.com is not registered" in event[2] for event in fake.recorder.events)
        assert fake.runtime.count("run_sandbox") == 1
        (item,) = fake.runtime.running("a")
        assert [device.name for device in item.config.CDI_devices] == ["gpu.example.com/device=dev-0"]
        assert all(request.renew for request in fake.devices.prepared)
        fake.devices.fail_claims = [error_for("FAILED_PRECONDITION", "busy")]
        scene.delete()
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
        assert (fake.devices.unprepared, fake.devices.released) == ([UID], [UID])


async def test_a_new_life_takes_what_is_prepared_though_the_claim_left_the_api(tmp_path: Path) -> None:
    scene = Scene(tmp_path, claimed_pod())
    fake = scene.fake
    fake.objects.items["ResourceClaim", "c"] = allocated_claim()
    async with at_work(scene):
        await scene.running()
    fake.objects.items.clear()
    fake.devices.cdi = {"a": ("gpu.example.com/device=again",)}
    later = Scene(tmp_path, claimed_pod())
    later.fake = fake
    later.worker = PodWorker(
        WorkerOptions(spec=read_pod(claimed_pod()), deps=fake.deps, runtime_name=lambda: "n", clock=later.clock)
    )
    fake.runtime.changed, fake.runtime.clock = later.changed, later.clock
    async with at_work(later):
        await later.running()
        fake.runtime.end(fake.runtime.running("a")[0].id, 1)
        await later.until(lambda: fake.runtime.running("a"))
        (item,) = fake.runtime.running("a")
        assert [device.name for device in item.config.CDI_devices] == ["gpu.example.com/device=again"]
        assert not fake.devices.prepared[-1].renew
        fake.objects.items["ResourceClaim", "c"] = allocated_claim()
        fake.devices.fail_claims = [NotFound("all is lost")]
        later.worker.readmit()
        await later.until(lambda: fake.devices.prepared[-1].renew)
        await later.until(lambda: later.worker._suppression.idle)
        fake.devices.fail_claims, asked = [error_for("FAILED_PRECONDITION", "busy")], len(fake.devices.prepared)
        later.worker.readmit()
        await later.until(lambda: len(fake.devices.prepared) > asked and not later.worker._suppression.idle)
        later.worker.wake()
        await later.until(lambda: later.worker._suppression.idle)


async def test_what_a_pod_had_stands_in_its_status_before_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, pod(policy="Never"))
    fake, order = scene.fake, list[tuple[str, object]]()
    fake.health.holds[UID] = PodHeld((HeldContainer("a", (HeldResource("r/gpu", ("g1",)),)),))
    fake.runtime.exit_at_once["a"] = 1

    async def settle(uid: str, seconds: float) -> None:
        order.append(("settle", scene.shown("a").get("allocatedResourcesStatus")))

    async def release(uid: str) -> None:
        order.append(("release", None))

    monkeypatch.setattr(fake.statuses, "wait_settled", settle)
    monkeypatch.setattr(fake.devices, "release", release)
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
    had = [{"name": "r/gpu", "resources": [{"resourceID": "g1", "health": "Unknown"}]}]
    assert order == [("settle", had), ("release", None)]


@pytest.mark.parametrize("end", ["back", "killed", "known", "deleted", "static"])
async def test_what_the_api_never_heard_of_stays_the_pods_while_the_api_is_away(tmp_path: Path, end: str) -> None:
    """Who holds the device is known to the device manager alone then, and podworker may die."""

    shown = [{"name": "r/gpu", "resources": [{"resourceID": "g1", "health": "Healthy"}]}]
    status = {"containerStatuses": [{"name": "a", "allocatedResourcesStatus": shown}]} if end == "known" else None
    metadata = {"annotations": {"kubernetes.io/config.source": "file"}} if end == "static" else None
    raw = pod(policy="Never", status=status, metadata=metadata)
    scene = Scene(tmp_path, raw)
    fake = scene.fake
    fake.statuses.away = True
    fake.health.holds[UID] = held = PodHeld((HeldContainer("a", (HeldResource("r/gpu", ("g1",)),)),))
    fake.runtime.exit_at_once["a"] = 1
    async with at_work(scene):
        if end in ("known", "static"):
            await scene.until(lambda: fake.devices.released)
            return
        await scene.until(lambda: "allocatedResourcesStatus" in scene.shown("a"))
        for _ in range(3):
            scene.worker.wake()
            await asyncio.sleep(0.01)
        assert not fake.devices.released
        assert scene.status["phase"] != "Failed"
        if end == "deleted":
            scene.delete()
            await scene.until(lambda: fake.devices.released)
            return
        if end == "back":
            fake.statuses.away = False
            scene.worker.wake()  # as the status manager does
            await scene.until(lambda: scene.status.get("phase") == "Failed" and fake.health.over.get(UID) == held)
            return
    later = Scene(tmp_path, raw)
    later.fake = fake
    later.worker = PodWorker(WorkerOptions(read_pod(raw), fake.deps, lambda: "nodeplane", fence_ns=1))
    fake.runtime.changed = later.changed
    fake.statuses.away = False
    async with at_work(later):
        await later.until(lambda: later.status.get("phase") == "Failed" and fake.health.over.get(UID) == held)
    assert fake.devices.released


async def test_a_new_life_that_finds_the_devices_freed_already_keeps_what_the_status_shows(tmp_path: Path) -> None:
    """The life before died between the release and the word to the API that the pod has failed."""

    shown = [{"name": "r/gpu", "resources": [{"resourceID": "g1", "health": "Healthy"}]}]
    status = {"phase": "Running", "containerStatuses": [{"name": "a", "allocatedResourcesStatus": shown}]}
    scene = Scene(tmp_path, pod(policy="Never"))
    scene.fake.runtime.exit_at_once["a"] = 1
    async with at_work(scene):
        await scene.until(lambda: scene.fake.devices.released)
    raw = pod(policy="Never", status=status)
    later = Scene(tmp_path, raw)
    later.fake = fake = scene.fake
    fake.statuses.history.clear()
    later.worker = PodWorker(WorkerOptions(read_pod(raw), fake.deps, lambda: "nodeplane", fence_ns=1))
    fake.runtime.changed = later.changed
    async with at_work(later):
        await later.until(lambda: later.status.get("phase") == "Failed" and fake.health.over.get(UID))
    assert [one["containerStatuses"][0].get("allocatedResourcesStatus") for one in fake.statuses.history] == [
        shown
    ] * len(fake.statuses.history)
    assert fake.health.over[UID] == PodHeld((HeldContainer("a", (HeldResource("r/gpu", ("g1",)),)),))


async def test_foreign_status_writes_trigger_syncs_at_a_limited_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    async with at_work(scene):
        await scene.running()
        reporter = scene.worker._pod_sync._reporter
        report = mock.Mock(side_effect=reporter.report)
        monkeypatch.setattr(reporter, "report", report)
        scene.worker.update(scene.raw, own_change=True)
        await asyncio.sleep(0.02)
        assert not report.called
        scene.fake.statuses.others = True
        for number in range(20):
            scene.worker.update(scene.raw, own_change=True)
            await asyncio.sleep(0.005 if number % 2 else 0)
        assert 1 <= report.call_count <= 3, "then one each five seconds"


async def test_a_resync_compares_and_inspects_periodically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        worker, suppression = scene.worker, scene.worker._suppression
        looks = 0
        looked = suppression.end

        def count(idle: bool) -> None:
            nonlocal looks
            looks += 1
            looked(idle)

        monkeypatch.setattr(suppression, "end", count)

        async def settled() -> None:
            await scene.until(lambda: suppression.idle and not worker._woken.is_set() and worker._timer is None)

        async def resyncs() -> int:
            """How many until one looks."""
            before = looks
            for number in range(1, 99):
                worker.resync()
                if worker._woken.is_set():
                    await scene.until(lambda: looks > before)
                    await settled()
                    return number
            raise AssertionError("none looks")

        await scene.running()
        await settled()
        assert MAX_SKIPPED // 2 < await resyncs() <= MAX_SKIPPED + 1
        assert len({await resyncs() for _ in range(8)}) > 1, "not all pods at once"
        worker.update(scene.raw, own_change=True)
        assert await resyncs() > MAX_SKIPPED // 2, "its own status came back: nothing to look at"
        worker.state.resources = PodResourceStatus(uid=UID, containers={})
        assert await resyncs() == 1, "a wake-up was lost"


def test_the_echo_of_its_own_status_triggers_no_sync() -> None:
    suppression, spec, status = ResyncSuppression(), object(), object()
    suppression.begin((spec, status))
    newer = object()
    suppression.replace(spec, newer)
    suppression.end(True)
    assert suppression.skip((newer, status))
    assert not suppression.skip((newer, object()))
    suppression.begin((newer, status))
    suppression.end(False)
    assert not suppression.idle


async def test_a_pod_that_waits_for_something_has_a_timer_of_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.fake.devices.fail = [Unavailable("away")] * 99
    async with at_work(scene):
        worker = scene.worker
        await scene.until(lambda: worker._failures == 1 and worker._timer is not None)
        worker.resync()
        assert not worker._woken.is_set(), "left to its timer"
        await scene.until(lambda: worker._failures == 2)
