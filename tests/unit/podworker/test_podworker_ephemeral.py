from copy import deepcopy
from pathlib import Path
from typing import Any

from protocols.bus import error_for
from protocols.kinds import views
from protocols.lifecycle.pods.types import PodStage
from protocols.lifecycle.status.events import field_path
from protocols.wire import cri_pb2 as pb
from tests.support.podworker_fakes import container, pod
from tests.support.podworker_scene import Scene, at_work


def with_debugger(scene: Scene, *debuggers: Any) -> views.Pod:
    raw = deepcopy(scene.raw)
    raw["spec"]["ephemeralContainers"] = list(debuggers)
    raw["status"] = scene.status
    return raw


async def test_it_starts_beside_its_target_runs_once_and_decides_nothing(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
        runtime = scene.fake.runtime
        target = runtime.running("a")[0].id
        scene.worker.update(with_debugger(scene, container("dbg", image="box:1", targetContainerName="a")))
        await scene.running("dbg")
        config = next(c for c in runtime.containers.values() if c.name == "dbg").config
        options = config.linux.security_context.namespace_options
        assert (options.pid, options.target_id) == (pb.TARGET, target)
        shown = scene.shown("dbg")
        assert (shown["ready"], shown["restartCount"], "started" in shown) == (False, 0, False)
        runtime.end(runtime.running("dbg")[0].id, 1)
        await scene.until(lambda: "terminated" in scene.shown("dbg")["state"])
        assert scene.status["phase"] == "Running"
        assert next(c for c in scene.status["conditions"] if c["type"] == "Ready")["status"] == "True"
        runtime.end(target, 1)
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1)
        assert sum(1 for c in runtime.containers.values() if c.name == "dbg") == 1


async def test_a_new_life_does_not_start_it_again(tmp_path: Path) -> None:
    ended = {
        "name": "dbg",
        "containerID": "nodeplane://gone",
        "state": {"terminated": {"exitCode": 0}},
        "image": "box:1",
    }
    raw = pod(status={"phase": "Running", "ephemeralContainerStatuses": [ended]})
    raw["spec"]["ephemeralContainers"] = [{"name": "dbg", "image": "box:1"}]

    async with at_work(Scene(tmp_path, raw)) as scene:
        await scene.running()
        assert not scene.fake.runtime.running("dbg")
        assert scene.shown("dbg")["state"] == ended["state"]


async def test_it_waits_for_its_target_and_says_so(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path, pod(container("a"), container("b")))) as scene:
        await scene.running()
        scene.fake.runtime.fail["start_container"] = [error_for("UNKNOWN", "no")] * 5
        scene.fake.runtime.end(scene.fake.runtime.running("b")[0].id, 1)
        await scene.until(lambda: not scene.fake.runtime.running("b") and scene.shown("b").get("restartCount"))
        scene.worker.update(with_debugger(scene, container("dbg", targetContainerName="b")))
        await scene.until(lambda: scene.shown("dbg").get("state", {}).get("waiting", {}).get("message"))
        assert scene.shown("dbg")["state"]["waiting"]["message"] == "waits for container b to run"


async def test_a_pod_that_is_over_takes_it_along(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path, pod(policy="Never"))) as scene:
        await scene.running()
        scene.worker.update(with_debugger(scene, container("dbg")))
        await scene.running("dbg")
        scene.fake.runtime.end(scene.fake.runtime.running("a")[0].id, 0)
        await scene.until(lambda: scene.worker.state.stage is PodStage.TERMINATED)
        assert scene.status["phase"] == "Succeeded"
        assert "terminated" in scene.shown("dbg")["state"]
        assert field_path(scene.worker.state.spec.find("dbg")) == "spec.ephemeralContainers{dbg}"
