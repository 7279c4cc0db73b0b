import asyncio
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from actors.podworker.pods.containers import killer as killer_module
from actors.podworker.pods.containers.killer import LEAST_GRACE_S, Killer
from protocols.kinds import views
from protocols.lifecycle.pods.probes import ProbeVerdict
from protocols.lifecycle.pods.types import Kill, PodActions, container_hash, read_pod
from protocols.lifecycle.restarts.kills import ordered, stop_all
from protocols.lifecycle.restarts.plan import compute_actions
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from tests.support.podworker_fakes import FakeDependencies, FakeRuntime, container, pod, sidecar
from tests.support.podworker_scene import Scene, at_work
from tests.support.waiting import until_async

NOW = 10**13
BOX = SandboxStatus(id="s1", ready=True, attempt=0, created_ns=1)
POLICIES = ("Always", "OnFailure", "Never")


def run(name: str, state: str = "running", code: int = 0, image: str = "img:1", attempt: int = 0) -> ContainerStatus:
    return ContainerStatus(
        id=f"{name}{attempt}",
        sandbox_id="s1",
        name=name,
        attempt=attempt,
        restart_count=attempt,
        state=state,
        created_ns=2 + attempt,
        finished_ns=NOW - 1 if state == "exited" else 0,
        exit_code=code,
        spec_hash=container_hash(name, image),
    )


def plan(
    raw: views.Pod,
    *runs: ContainerStatus,
    verdicts: Mapping[str, ProbeVerdict] | None = None,
    replaced: Collection[str] = (),
) -> PodActions:
    status = PodStatus(uid="uid-1", sandboxes=(BOX,), containers=runs)
    return compute_actions(read_pod(raw), status, {}, NOW, {}, verdicts, replaced)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("probe", ["liveness", "startup"])
def test_kill_after_failed_probe_restarts_unless_never(policy: str, probe: str) -> None:
    (kill,) = plan(
        pod(container("a"), policy=policy), run("a"), verdicts={"a0": ProbeVerdict(fault=probe, grace=7)}
    ).kill
    assert kill.restart == (policy != "Never")
    again = ", will be restarted" if policy != "Never" else ""
    assert (kill.message, kill.grace) == (f"Container a failed {probe} probe{again}", 7)


def test_kill_after_failed_probe_own_policy_of_container_decides() -> None:
    own = container("a", restartPolicy="Never")
    (kill,) = plan(pod(own, policy="Always"), run("a"), verdicts={"a0": ProbeVerdict(fault="liveness")}).kill
    assert not kill.restart
    (kill,) = plan(
        pod(inits=[sidecar("s")], policy="Never"), run("s"), verdicts={"s0": ProbeVerdict(fault="liveness")}
    ).kill
    assert (kill.restart, kill.message) == (True, "Init container s failed liveness probe")


@given(st.sampled_from(POLICIES), st.integers(0, 255), st.booleans())
def test_changed_image_always_restarts(policy: str, code: int, own: bool) -> None:
    raw = pod(container("a", image="img:2", **({"restartPolicy": "Never"} if own else {})), policy=policy)
    steps = plan(raw, run("a"))
    assert [kill.restart for kill in steps.kill] == [True]
    assert not steps.start
    steps = plan(raw, run("a", "exited", code), replaced={"a0"})
    assert [step.name for step in steps.start] == ["a"]


def test_changed_image_of_init_containers_restarts_sidecars_only() -> None:
    inits = [container("i", image="img:2"), container("s", image="img:2", restartPolicy="Always")]
    (kill,) = plan(pod(inits=inits), run("i", "exited"), run("s")).kill
    assert (kill.name, kill.restart, kill.message) == ("s", True, "Init container s definition changed")
    steps = plan(pod(inits=inits), run("i"))
    assert (steps.kill, steps.start) == ((), ())


def test_killed_container_that_is_not_replaced_is_judged_by_its_exit_code() -> None:
    assert not plan(pod(policy="OnFailure"), run("a", "exited", 0)).start
    steps = plan(pod(policy="OnFailure"), run("a", "exited", 0), replaced={"a0"})
    assert steps.restarting == {"a"}
    assert not plan(pod(policy="OnFailure"), run("a", "exited", 1), replaced={"a0"}).restarting


def test_completed_init_containers_whose_runs_are_lost_do_not_run_again() -> None:
    inits = [container("i1"), sidecar("s"), container("i2"), container("i3")]
    raw = pod(inits=inits)
    assert [step.name for step in plan(raw, run("s"), run("i2", "exited")).start] == ["i3"]
    assert [step.name for step in plan(raw, run("i2")).start] == ["s"]
    assert [step.name for step in plan(raw, run("s"), run("i3", "exited")).start] == ["a"]
    assert [step.name for step in plan(raw, run("s", "exited"), run("i2", "exited", 1)).start] == ["s", "i2"]


@given(st.lists(st.sampled_from(["missing", "running", "done", "failed"]), min_size=4, max_size=4))
def test_init_phase_starts_one_container_at_a_time_and_never_skips_one(states: list[str]) -> None:
    kinds = [container("i0"), sidecar("i1"), container("i2"), sidecar("i3")]
    how = {"running": ("running", 0), "done": ("exited", 0), "failed": ("exited", 1)}
    runs = [run(f"i{n}", *how[state]) for n, state in enumerate(states) if state != "missing"]
    started = [step.name for step in plan(pod(inits=kinds), *runs).start]
    last = max((n for n, state in enumerate(states) if state != "missing"), default=-1)
    new = [name for name in started if name not in {r.name for r in runs} and name not in ("i1", "i3")]
    assert new in ([], [f"i{last + 1}"] if last < 3 else ["a"])
    assert "a" not in started or states[3] == "running"


def test_ordered_sidecars_wait_for_all_others_and_for_later_sidecars() -> None:
    spec = read_pod(pod(container("a"), container("b"), inits=[sidecar("s1"), sidecar("s2")]))
    kills = {kill.name: kill for kill in stop_all(spec, [run("s1"), run("a"), run("s2"), run("b")])}
    assert kills["a"].after == kills["b"].after == ()
    assert set(kills["s2"].after) == {"a0", "b0"}
    assert set(kills["s1"].after) == {"s20"}
    assert kills["a"].message == "Stopping container a"
    assert ordered(spec, ()) == ()


def test_ordered_sidecars_wait_for_no_debugging_shell() -> None:
    raw = pod(container("a"), inits=[sidecar("s")], ephemeralContainers=[{"name": "debug", "image": "img:1"}])
    kills = {kill.name: kill for kill in stop_all(read_pod(raw), [run("s"), run("a"), run("debug")])}
    assert (kills["s"].after, kills["debug"].after) == (("a0",), ())


def hooked(name: str, command: str, **more: Any) -> views.Container:
    return container(name, lifecycle={"preStop": {"exec": {"command": [command]}}}, **more)


class SlowHooks(FakeRuntime):
    """Records the order of the calls; hooks take `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.order: list[tuple[str, str]] = []
        self.graces: list[int] = []
        self._seconds = seconds

    async def exec_sync(self, container_id: str, command: list[str], timeout: int) -> tuple[int, bytes]:
        self.order.append(("hook", container_id))
        await asyncio.sleep(self._seconds)
        return 0, b""

    async def stop_container(self, container_id: str, grace: int) -> None:
        self.order.append(("stop", container_id))
        self.graces.append(grace)


async def stopped(tmp_path: Path, grace: int, hooks: SlowHooks) -> list[str]:
    """Stop a pod with a sidecar, and return the reasons of its events."""
    fake, ends = FakeDependencies(tmp_path, hooks), list[float]()
    spec = read_pod(pod(hooked("a", "x"), inits=[hooked("s", "x", restartPolicy="Always")]))
    killer = Killer(fake.deps, lambda id_, good: ends.append(time.monotonic()))
    for kill in stop_all(spec, [run("s"), run("a")]):
        killer.stop(spec, kill, grace)
    await until_async("two ends", lambda: (ends, hooks.order), good=lambda seen: len(seen[0]) >= 2)
    return fake.recorder.reasons()


async def test_killer_starts_all_hooks_at_once_and_stops_sidecars_last(tmp_path: Path) -> None:
    await stopped(tmp_path, 60, hooks := SlowHooks(0.1))
    assert set(hooks.order[:2]) == {("hook", "a0"), ("hook", "s0")}
    assert hooks.order[2:] == [("stop", "a0"), ("stop", "s0")]


async def test_killer_hooks_longer_than_grace_share_one_grace(tmp_path: Path) -> None:
    began = time.monotonic()
    assert set(await stopped(tmp_path, 1, hooks := SlowHooks(30))) == {"Killing"}
    assert time.monotonic() - began < 15
    assert hooks.graces == [LEAST_GRACE_S, LEAST_GRACE_S]


async def test_killer_fast_kill_runs_no_hook(tmp_path: Path) -> None:
    hooks, ended = SlowHooks(30), asyncio.Event()
    Killer(FakeDependencies(tmp_path, hooks).deps, lambda id_, good: ended.set()).stop(
        read_pod(pod(hooked("a", "x"))), Kill("a0", "a", "", fast=True), 1
    )
    await asyncio.wait_for(ended.wait(), 20)
    assert (hooks.order, hooks.graces) == ([("stop", "a0")], [LEAST_GRACE_S])


def started_again(scene: Scene, count: int) -> bool:
    return scene.shown("a").get("restartCount") == count


async def test_killer_forgets_containers_that_are_removed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(container("a")))
    async with at_work(scene):
        await scene.running()
        for count in range(1, 5):
            scene.worker.update(pod(container("a", image=f"img:{count + 1}")))
            await scene.until(partial(started_again, scene, count))
        killer, present = scene.worker._killer, scene.fake.runtime.containers.keys()
        await scene.until(lambda: {*killer._calls, *killer._ended, *killer._announced, *killer._hooked} <= present)


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
async def test_worker_changed_image_replaces_container_that_exits_cleanly(tmp_path: Path, policy: str) -> None:
    scene = Scene(tmp_path, pod(container("a"), policy=policy))
    scene.fake.runtime.exit_on_stop["a"] = 0
    async with at_work(scene):
        await scene.running()
        newer = pod(container("a", image="img:2"), policy=policy)
        scene.worker.update(newer)
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1 and scene.shown("a")["ready"])
        assert scene.shown("a")["lastState"]["terminated"]["exitCode"] == 0
        assert {status["phase"] for status in scene.fake.statuses.history} <= {"Pending", "Running"}
        assert scene.fake.runtime.most_running == {"a": 1}


async def test_pre_stop_hook_calls_the_pod_although_pleg_does_not_know_it_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it calls that port of the node, where another program may listen."""
    called = list[str]()

    async def run_hook(deps: object, spec: object, container: object, hook: object, id: str, ip: str, s: float) -> None:
        called.append(ip)

    monkeypatch.setattr(killer_module, "run_hook", run_hook)
    fake, ended = FakeDependencies(tmp_path), asyncio.Event()
    killer = Killer(fake.deps, lambda id, good: ended.set())
    hooked = container("a", lifecycle={"preStop": {"httpGet": {"port": 8080}}})
    spec = read_pod(pod(hooked, status={"podIP": "10.1.2.3"}))
    killer.stop(spec, Kill("c1", "a", "Stopping container a"), 30)
    await until_async("the hook", lambda: called)
    killer.cancel()
    assert called == ["10.1.2.3"]
