from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from actors.scheduler.model.views import pod_view
from protocols.bus import Unavailable, error_for
from protocols.kinds import views
from protocols.lifecycle.pods.resources import amounts, changes, check_resize, desired_amounts, requests, with_allocated
from protocols.lifecycle.pods.types import Waiting, read_pod
from protocols.messages.devices import ContainerGrant
from protocols.scheduling.requests import amounts as quantities
from tests.support.podworker_fakes import container, pod, sidecar
from tests.support.podworker_scene import Scene, at_work


def burst(cpu: str = "100m", memory: str = "64Mi", **more: Any) -> views.Container:
    return container("a", resources={"requests": {"cpu": cpu, "memory": memory}}, **more)


def fixed(cpu: str = "1", memory: str = "64Mi") -> views.Container:
    same = {"cpu": cpu, "memory": memory}
    return container("a", resources={"requests": same, "limits": same})


def resized(scene: Scene, raw_container: views.Container) -> None:
    raw = deepcopy(scene.raw)
    raw["spec"]["containers"] = [raw_container]
    raw["metadata"]["generation"] = 2
    raw["status"] = scene.status
    scene.raw = raw
    scene.worker.update(raw)


def condition(scene: Scene, kind: str) -> Any:
    return next((c for c in scene.status.get("conditions", ()) if c["type"] == kind), None)


def cpu_of(scene: Scene, field: str = "resources") -> Any:
    found: Any = scene.shown("a").get(field) or {}
    return (found.get("requests", {}) if field == "resources" else found).get("cpu")


async def test_a_container_is_resized_while_it_runs(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path, pod(burst()))) as scene:
        await scene.running()
        await scene.until(lambda: cpu_of(scene) == cpu_of(scene, "allocatedResources") == "100m")
        resized(scene, burst("500m"))
        await scene.until(lambda: cpu_of(scene) == cpu_of(scene, "allocatedResources") == "500m")
        runtime = scene.fake.runtime
        calls = [what for name, what in runtime.calls if name == "resize"]
        assert [(id, r.cpu_shares) for id, r in calls] == [(runtime.running("a")[0].id, 512)]
        assert scene.shown("a")["restartCount"] == 0
        assert condition(scene, "PodResizePending") is condition(scene, "PodResizeInProgress") is None
        assert {"ResizeStarted", "ResizeCompleted"} <= set(scene.fake.recorder.reasons())


async def test_a_container_that_wants_a_restart_for_it_is_restarted_with_the_new_size(tmp_path: Path) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]

    async with at_work(Scene(tmp_path, pod(burst(resizePolicy=policy)))) as scene:
        await scene.running()
        resized(scene, burst("500m", resizePolicy=policy))
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1)
        await scene.running()
        await scene.until(lambda: cpu_of(scene) == "500m" and not condition(scene, "PodResizeInProgress"))
        runtime = scene.fake.runtime
        assert runtime.count("resize") == 0
        assert runtime.running("a")[0].config.linux.resources.cpu_shares == 512


async def test_what_the_runtime_refuses_is_said_and_tried_again(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path, pod(burst()))) as scene:
        await scene.running()
        scene.fake.runtime.fail["resize"] = [error_for("UNKNOWN", "busy")]
        resized(scene, burst("500m"))
        await scene.until(lambda: condition(scene, "PodResizeInProgress"))
        shown = condition(scene, "PodResizeInProgress")
        assert (shown["status"], shown["reason"], shown["message"]) == ("True", "Error", "container a: busy")
        assert (cpu_of(scene, "allocatedResources"), cpu_of(scene)) == ("500m", "100m")
        scene.skew_ns += 11 * 10**9
        scene.worker.wake()
        await scene.until(lambda: cpu_of(scene) == "500m" and not condition(scene, "PodResizeInProgress"))
        assert "ResizeError" in scene.fake.recorder.reasons()


async def test_memory_limit_below_what_a_container_uses_is_not_applied(tmp_path: Path) -> None:
    def limited(memory: str) -> views.Container:
        return container("a", resources={"requests": {"memory": "32Mi"}, "limits": {"memory": memory}})

    async with at_work(Scene(tmp_path, pod(limited("256Mi")))) as scene:
        await scene.running()
        scene.fake.runtime.used = 200 << 20
        resized(scene, limited("128Mi"))
        await scene.until(lambda: condition(scene, "PodResizeInProgress"))
        assert condition(scene, "PodResizeInProgress")["message"] == (
            'cannot decrease memory limits: attempting to set container "a" memory limit (134217728) below current '
            "usage (209715200)"
        )
        assert not scene.fake.runtime.count("resize")
        scene.fake.runtime.used = 100 << 20
        scene.worker.wake()
        await scene.until(lambda: scene.fake.runtime.count("resize"))


async def test_resize_that_is_taken_back_after_a_failure_is_undone(tmp_path: Path) -> None:
    """The runtime may have done it, or a part, before it failed; a restarted podworker does not know either."""
    async with at_work(Scene(tmp_path, pod(burst()))) as scene:
        await scene.running()
        scene.fake.runtime.fail["resize"] = [Unavailable("no answer")]
        resized(scene, burst("500m"))
        await scene.until(lambda: condition(scene, "PodResizeInProgress"))
        failed = deepcopy(scene.status)
        resized(scene, burst("100m"))
        await scene.until(lambda: not condition(scene, "PodResizeInProgress"))
        assert [what[1].cpu_shares for name, what in scene.fake.runtime.calls if name == "resize"][-1] == 102
    again = Scene(tmp_path, {**scene.raw, "status": failed})
    again.fake.runtime.__dict__.update(scene.fake.runtime.__dict__, changed=again.changed, calls=[])
    again.fake.pleg.deliver("uid-1")
    async with at_work(again):
        await again.until(lambda: again.status and not condition(again, "PodResizeInProgress"))
        assert again.fake.runtime.count("resize") == 1
        assert cpu_of(again, "allocatedResources") == "100m"


async def test_what_does_not_fit_waits_and_a_restart_keeps_the_old_size(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(burst()))
    scene.fake.local_node.seen["status"]["allocatable"]["cpu"] = "2"
    scene.room.count(read_pod(pod(burst("1800m"), uid="other")))
    async with at_work(scene):
        await scene.running()
        resized(scene, burst("500m"))
        await scene.until(lambda: condition(scene, "PodResizePending"))
        shown = condition(scene, "PodResizePending")
        assert (shown["reason"], shown["message"]) == (
            "Deferred",
            "Node didn't have enough resource: cpu, requested: 500, used: 1800, capacity: 2000",
        )
        runtime = scene.fake.runtime
        runtime.end(runtime.running("a")[0].id, 1)
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1)
        await scene.running()
        assert runtime.running("a")[0].config.linux.resources.cpu_shares == 102
        late = read_pod(pod(burst(), uid="late"))
        assert scene.room.capacity_for(late, {"cpu": "3"}) == {"cpu": (3000, 1800 + 500)}, "the first one's is taken"
        scene.room.discount("other")
        scene.skew_ns += 11 * 10**9
        scene.worker.wake()
        await scene.until(lambda: cpu_of(scene) == "500m" and not condition(scene, "PodResizePending"))


async def test_restart_retains_the_condition_of_a_resize_that_waits(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path, pod(burst()))) as scene:
        await scene.running()
        resized(scene, burst("900"))
        await scene.until(lambda: condition(scene, "PodResizePending"))
    waiting: Any = {**condition(scene, "PodResizePending"), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    others = [entry for entry in scene.status["conditions"] if entry["type"] != "PodResizePending"]
    shown: views.PodStatus = {**scene.status, "conditions": [*others, waiting]}
    again = Scene(tmp_path, {**scene.raw, "status": shown})
    again.fake.runtime.__dict__.update(scene.fake.runtime.__dict__, changed=again.changed)
    again.fake.pleg.deliver("uid-1")
    async with at_work(again):
        await again.until(lambda: again.worker.state.sizes.pending and again.worker.state.claims is not None)
        assert all(waiting in status["conditions"] for status in again.fake.statuses.history)


async def test_limit_that_the_node_has_not_allocated_is_neither_applied_nor_shown(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(burst()))
    scene.fake.local_node.seen["status"]["allocatable"]["cpu"] = "2"
    scene.room.count(read_pod(pod(burst("1800m"), uid="other")))
    async with at_work(scene):
        await scene.running()
        raw = burst("500m")
        raw["resources"]["limits"] = {"memory": "1Gi", "example.com/gpu": "0"}
        resized(scene, raw)
        await scene.until(lambda: condition(scene, "PodResizePending"))
        runtime = scene.fake.runtime
        runtime.end(runtime.running("a")[0].id, 1)
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1)
        await scene.running()
        assert runtime.running("a")[0].config.linux.resources.memory_limit_in_bytes == 0
        assert scene.shown("a")["resources"]["limits"] == {"example.com/gpu": "0"}


def pinned(tmp_path: Path, given: str) -> Scene:
    scene = Scene(tmp_path, pod(fixed()))
    if given == "pool":
        scene.fake.devices.pool = "0-3"
    else:
        scene.fake.devices.grants = {"a": ContainerGrant(cpus="0") if given == "cpus" else ContainerGrant(mems="0")}
    return scene


@pytest.mark.parametrize(("given", "quota"), [("pool", 100_000), ("cpus", -1), ("mems", 200_000)])
async def test_what_is_not_exclusive_is_resized(tmp_path: Path, given: str, quota: int) -> None:
    """Exclusive CPUs have no quota, which would throttle them."""
    async with at_work(pinned(tmp_path, given)) as scene:
        await scene.running()
        resized(scene, fixed("2") if given == "mems" else fixed(memory="128Mi"))
        await scene.until(lambda: scene.fake.runtime.count("resize"))
        assert [what[1].cpu_quota for name, what in scene.fake.runtime.calls if name == "resize"] == [quota]


@pytest.mark.parametrize("given", ["pool", "cpus", "mems"])
async def test_exclusive_cpus_and_memory_are_not_resized(tmp_path: Path, given: str) -> None:
    scene = pinned(tmp_path, given)
    async with at_work(scene):
        await scene.running()
        resized(scene, fixed(memory="128Mi") if given == "mems" else fixed("2"))
        await scene.until(lambda: condition(scene, "PodResizePending"))
        shown = condition(scene, "PodResizePending")
        policy = 'Memory Manager policy "Static"' if given == "mems" else 'CPU Manager policy "static"'
        assert (shown["reason"], shown["message"]) == (
            "Infeasible",
            f"Resize is infeasible for Guaranteed Pods alongside {policy}",
        )
        assert scene.fake.runtime.count("resize") == 0
        resized(scene, fixed("1"))
        await scene.until(lambda: not condition(scene, "PodResizePending"))


@pytest.mark.parametrize(("shown", "resizes"), [("100m", 1), ("500m", 0)])
async def test_a_new_life_goes_on_where_the_last_one_was(shown: str, resizes: int, tmp_path: Path) -> None:
    """The API's status tells what a container has: a resize that was cut off is done now, one that was not is not."""
    scene = Scene(tmp_path, pod(burst("500m")))
    async with at_work(scene):
        await scene.running()
    again = Scene(tmp_path, {**scene.raw, "status": deepcopy(scene.status)})
    entry = again.raw["status"]["containerStatuses"][0]
    entry["resources"] = {"requests": {"cpu": shown, "memory": "64Mi"}}
    again.worker.update(again.raw)
    again.fake.runtime.sandboxes = scene.fake.runtime.sandboxes
    again.fake.runtime.containers = scene.fake.runtime.containers
    again.fake.pleg.deliver("uid-1")
    async with at_work(again):
        await again.until(lambda: cpu_of(again) == "500m")
        await again.until(lambda: again.worker.state.grants is not None)
        assert again.fake.runtime.count("resize") == resizes


@pytest.mark.parametrize(("observed", "undone"), [(1, [102]), (3, [])])
async def test_resize_that_no_status_shows_is_undone_if_it_is_taken_back_meanwhile(
    observed: int, undone: list[int], tmp_path: Path
) -> None:
    """Podworker was killed between the change and the status of it."""
    scene = Scene(tmp_path, pod(burst("500m")))
    async with at_work(scene):
        await scene.running()
    raw: Any = deepcopy({**pod(burst("100m")), "status": scene.status})
    raw["metadata"]["generation"], raw["status"]["observedGeneration"] = 3, observed
    raw["status"]["containerStatuses"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    again = Scene(tmp_path, raw)
    again.fake.runtime.sandboxes = scene.fake.runtime.sandboxes
    again.fake.runtime.containers = scene.fake.runtime.containers
    again.fake.pleg.deliver("uid-1")
    async with at_work(again):
        await again.until(lambda: again.worker.state.grants is not None and again.worker.state.sizes.actuated)
        await again.until(lambda: not again.worker.state.sizes.uncertain)
        assert [what[1].cpu_shares for name, what in again.fake.runtime.calls if name == "resize"] == undone


async def test_restart_before_a_pod_runs_admits_and_starts_it_with_its_old_size(tmp_path: Path) -> None:
    """After a reboot, too: kubelet has what it allocated in a file, here the API's status shows it."""
    reference = {"containerName": "a", "resource": "requests.cpu", "divisor": "1m"}
    raw = pod(burst("900", env=[{"name": "X", "valueFrom": {"resourceFieldRef": reference}}]))
    had: views.ResourceRequirements = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    raw["status"] = {"containerStatuses": [{"name": "a", "containerID": "nodeplane://lost", "resources": had}]}
    async with at_work(Scene(tmp_path, raw)) as scene:
        await scene.running()
        await scene.until(lambda: condition(scene, "PodResizePending"))
        assert condition(scene, "PodResizePending")["reason"] == "Infeasible"
        assert [request.containers[0].cpu for request in scene.fake.devices.admitted] == [100]
        run = scene.fake.runtime.running("a")[0]
        assert run.config.linux.resources.cpu_shares == 102
        assert {e.key: e.value for e in run.config.envs} == {"X": b"100"}


async def test_pod_that_is_resized_during_its_admission_gets_what_it_was_admitted_with(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path, pod(burst()))) as scene:
        scene.fake.devices.fail = [Unavailable("devices is away")]
        await scene.until(lambda: not scene.fake.devices.fail)
        resized(scene, burst("900"))
        await scene.running()
        await scene.until(lambda: condition(scene, "PodResizePending"))
        assert condition(scene, "PodResizePending")["reason"] == "Infeasible"
        assert [request.containers[0].cpu for request in scene.fake.devices.admitted] == [100]
        assert cpu_of(scene, "allocatedResources") == "100m"


async def test_container_that_was_created_before_a_restart_gets_its_size_once_it_runs(tmp_path: Path) -> None:
    """Podworker was killed between the creation and the start, and the pod was resized while it was away."""
    scene = Scene(tmp_path, pod(burst()))
    async with at_work(scene):
        await scene.running()
    raw: Any = deepcopy({**pod(burst("500m")), "status": scene.status})
    raw["metadata"]["generation"] = 2
    again = Scene(tmp_path, raw)
    again.fake.runtime.sandboxes = scene.fake.runtime.sandboxes
    again.fake.runtime.containers = scene.fake.runtime.containers
    for each in again.fake.runtime.containers.values():
        each.state = "created"
    again.fake.pleg.deliver("uid-1")
    async with at_work(again):
        await again.running()
        await again.until(lambda: again.fake.runtime.count("resize") == 1)
        assert [what[1].cpu_shares for name, what in again.fake.runtime.calls if name == "resize"] == [512]


def test_the_node_has_room_or_not() -> None:
    spec = read_pod(pod(burst("1"), inits=[{**sidecar("s"), "resources": {"requests": {"cpu": "1"}}}]))
    assert requests(spec, {}) == {"cpu": 2000, "memory": (64 << 20) * 1000}
    desired = desired_amounts(spec)
    assert check_resize(spec, {}, desired, {"cpu": (2000, 0)}, cpus_pinned=True, memory_pinned=True) is None
    assert check_resize(spec, {}, desired, {"cpu": (1500, 0)}, False, False) == Waiting(
        "Infeasible", "Node didn't have enough capacity: cpu, requested: 2000, capacity: 1500"
    )


def test_amounts_are_compared_as_amounts() -> None:
    one, other = amounts({"requests": {"cpu": "1"}}), amounts({"requests": {"cpu": "1000m"}})
    assert changes(one, other) == set()
    assert changes(one, amounts({"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}})) == {"memory"}
    given = read_pod(pod(burst())).containers[0]
    assert with_allocated(given, amounts(given.raw["resources"])) is given
    assert with_allocated(given, one).raw["resources"]["requests"] == {"cpu": "1"}


@pytest.mark.parametrize(
    ("wanted_cpu", "reason", "counted"),
    [("4", "Infeasible", "1"), ("4", "Deferred", "4"), ("500m", "Error", "1"), ("4", "", "4")],
)
def test_the_scheduler_counts_what_a_pod_has_or_wants(wanted_cpu: str, reason: str, counted: str) -> None:
    raw = pod(burst(wanted_cpu))
    kind = "PodResizeInProgress" if reason == "Error" else "PodResizePending"
    raw["status"] = {
        "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "1", "memory": "64Mi"}}],
        "conditions": [{"type": kind, "status": "True", "reason": reason}] if reason else [],
    }
    assert pod_view(raw).requests["cpu"] == quantities({"cpu": counted})["cpu"]
