"""The action RestartAllContainers: the plan, its crash safety, and what the status shows meanwhile."""

from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import PodActions, container_hash, read_pod
from protocols.lifecycle.restarts.plan import compute_actions
from protocols.lifecycle.restarts.policy import matching_action
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from tests.support.podworker_fakes import container, pod
from tests.support.podworker_scene import Scene, at_work

NOW = 10**13
BOX = SandboxStatus(id="s1", ready=True, attempt=0, created_ns=1)
NAMES = ("setup", "side", "a", "b")


def rule(*codes: int, action: str = "RestartAllContainers", operator: str = "In") -> Object:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


def raw_pod(policy: str = "Never") -> views.Pod:
    side = container("side", restartPolicy="Always", restartPolicyRules=[rule(88)])
    app = container("a", restartPolicy="Never", restartPolicyRules=[rule(7, action="Restart"), rule(42, 7)])
    return pod(app, container("b"), inits=[container("setup"), side], policy=policy)


def run(name: str, state: str = "running", code: int = 0, attempt: int = 0) -> ContainerStatus:
    ended = NOW - 1 if state == "exited" else 0
    return ContainerStatus(
        id=f"{name}{attempt}",
        sandbox_id="s1",
        name=name,
        attempt=attempt,
        restart_count=attempt,
        state=state,
        created_ns=2 + attempt,
        finished_ns=ended,
        exit_code=code,
        spec_hash=container_hash(name, "img:1"),
    )


def plan(raw: views.Pod, *runs: ContainerStatus, counts: dict[str, int] | None = None) -> PodActions:
    status = PodStatus(uid="uid-1", sandboxes=(BOX,), containers=runs)
    return compute_actions(read_pod(raw), status, {}, NOW, counts or {})


def test_matching_action_first_rule_that_matches_decides() -> None:
    a = read_pod(raw_pod()).by_name["a"]
    assert matching_action(a, 7) == "Restart"
    assert matching_action(a, 42) == "RestartAllContainers"
    assert matching_action(a, 1) == ""


def test_restart_all_kills_then_removes_with_the_trigger_last() -> None:
    runs = [run("setup", "exited"), run("side"), run("a", "exited", 42), run("b")]
    first = plan(raw_pod(), *runs)
    assert {(kill.id, kill.fast, kill.grace) for kill in first.kill} == {("side0", True, 2), ("b0", True, 2)}
    assert (first.start, first.remove, first.restart_all) == ((), (), True)
    ended = [run("setup", "exited"), run("side", "exited", 137), run("a", "exited", 42), run("b", "exited", 0)]
    second = plan(raw_pod(), *ended)
    assert set(second.remove) == {"setup0", "side0", "a0", "b0"}
    assert second.remove[-1] == "a0"
    assert (second.kill, second.start) == ((), ())
    third = plan(raw_pod(), counts=dict.fromkeys(NAMES, 0))
    assert [(step.name, step.attempt) for step in third.start] == [("setup", 1)]
    assert third.create_sandbox == -1


ends = st.tuples(st.sampled_from(["running", "exited", "created"]), st.sampled_from([0, 1, 42, 88, 137]))


@given(st.dictionaries(st.sampled_from(NAMES), ends), st.integers(0, 3), st.sampled_from(["Always", "Never"]))
def test_restart_all_interrupted_anywhere_is_completed(
    found: dict[str, tuple[str, int]], interrupted: int, policy: str
) -> None:
    raw, runs = raw_pod(policy), {name: run(name, *end) for name, end in found.items()}
    if not plan(raw, *runs.values()).restart_all:
        return
    for _ in range(20):
        steps = plan(raw, *runs.values())
        assert not (steps.restart_all and steps.start)
        if not runs:
            break
        assert steps.restart_all
        for kill in steps.kill:
            runs[kill.name] = run(kill.name, "exited", 137)
        for container_id in steps.remove[: interrupted + 1]:
            del runs[container_id.removesuffix("0")]
    assert not runs
    assert [step.name for step in plan(raw).start] == ["setup"]


def condition(status: views.PodStatus) -> str | None:
    found = [c for c in status.get("conditions", ()) if c["type"] == "AllContainersRestarting"]
    return found[0]["status"] if found else None


async def test_worker_restarts_all_containers_in_place(tmp_path: Path) -> None:
    scene = Scene(tmp_path, raw_pod())
    runtime = scene.fake.runtime
    runtime.exit_at_once["setup"] = 0
    async with at_work(scene):
        await scene.running("b")
        await scene.running("a")
        assert condition(scene.status) == "False"
        box = next(iter(runtime.sandboxes))
        runtime.end(runtime.running("a")[0].id, 42)
        await scene.until(lambda: all(scene.shown(name).get("restartCount") == 1 for name in NAMES))
        await scene.until(lambda: scene.shown("a")["ready"] and scene.shown("b")["ready"])
        assert list(runtime.sandboxes) == [box]
        assert scene.shown("a")["lastState"]["terminated"]["exitCode"] == 42
        assert scene.shown("b")["lastState"]["terminated"]["exitCode"] == 143
        assert "True" in [condition(status) for status in scene.fake.statuses.history]
        assert condition(scene.status) == "False"
        phases = [status["phase"] for status in scene.fake.statuses.history]
        assert set(phases[phases.index("Running") :]) <= {"Running", "Pending"}
        initialized = [c["status"] for c in scene.status["conditions"] if c["type"] == "Initialized"]
        assert initialized == ["True"]
        assert set(runtime.most_running.values()) == {1}


async def test_worker_sidecar_restarts_all_containers_of_a_pod_that_never_restarts(tmp_path: Path) -> None:
    scene = Scene(tmp_path, raw_pod())
    runtime = scene.fake.runtime
    runtime.exit_at_once["setup"] = 0
    async with at_work(scene):
        await scene.running("a")
        runtime.end(runtime.running("side")[0].id, 88)
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1 and scene.shown("a")["ready"])
        runtime.end(runtime.running("a")[0].id, 0)
        await scene.until(lambda: scene.shown("b").get("ready"))
        runtime.end(runtime.running("b")[0].id, 0)
        await scene.until(lambda: scene.status["phase"] == "Succeeded")


async def test_worker_pod_without_rule_has_no_restarting_condition(tmp_path: Path) -> None:
    async with at_work(Scene(tmp_path)) as scene:
        await scene.running()
        assert condition(scene.status) is None
