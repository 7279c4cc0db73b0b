from collections.abc import Collection, Iterable, Mapping

import hypothesis.strategies as st
from hypothesis import given

from protocols.kinds import views
from protocols.lifecycle.pods.runtime_status import with_failed_starts
from protocols.lifecycle.pods.types import (
    SECOND,
    BackoffEntry,
    PodActions,
    Start,
    StartFailure,
    container_hash,
    read_pod,
)
from protocols.lifecycle.restarts import backoff
from protocols.lifecycle.restarts.plan import compute_actions
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from tests.support.podworker_fakes import container, pod, sidecar

S = SECOND
NOW = 10_000 * S
BOX = SandboxStatus(id="s1", ready=True, attempt=0, created_ns=S)


def run(
    name: str,
    state: str = "running",
    attempt: int = 0,
    code: int = 0,
    finished: int = 0,
    sandbox: str = "s1",
    image: str = "img:1",
) -> ContainerStatus:
    return ContainerStatus(
        id=f"{name}-{sandbox}-{attempt}",
        sandbox_id=sandbox,
        name=name,
        attempt=attempt,
        restart_count=attempt,
        state=state,
        created_ns=S + attempt,
        started_ns=S,
        finished_ns=finished,
        exit_code=code,
        spec_hash=container_hash(name, image),
    )


def status(*containers: ContainerStatus, boxes: Iterable[SandboxStatus] = (BOX,)) -> PodStatus:
    ordered = sorted(containers, key=lambda c: -c.created_ns)
    return PodStatus(uid="uid-1", sandboxes=tuple(boxes), containers=tuple(ordered), timestamp_ns=NOW)


def plan(
    raw: views.Pod,
    found: PodStatus,
    backoffs: Mapping[str, BackoffEntry] | None = None,
    now: int = NOW,
    counts: Mapping[str, int] | None = None,
    replaced: Collection[str] = (),
) -> PodActions:
    return compute_actions(read_pod(raw), found, backoffs or {}, now, counts, replaced=replaced)


def names(steps: Iterable[Start]) -> list[tuple[str, int]]:
    return [(s.name, s.attempt) for s in steps]


def test_a_new_pod_gets_a_sandbox_and_its_first_container() -> None:
    steps = plan(pod(container("a"), container("b")), PodStatus(uid="uid-1"))
    assert steps.create_sandbox == 0
    assert names(steps.start) == [("a", 0), ("b", 0)]


def test_running_needs_nothing() -> None:
    assert not plan(pod(container("a")), status(run("a"))).mutates


def test_restart_policies() -> None:
    for policy, code, restarts in (
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 3, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ):
        steps = plan(pod(container("a"), policy=policy), status(run("a", "exited", code=code, finished=NOW - S)))
        assert names(steps.start) == ([("a", 1)] if restarts else []), (policy, code)


def test_crash_loop_waits_and_says_until_when() -> None:
    raw = pod(container("a"))
    backoffs = {"a": backoff.advance(None, 0, NOW - 2 * S, container_hash("a", "img:1"))}
    steps = plan(raw, status(run("a", "exited", attempt=1, code=1, finished=NOW - S)), backoffs)
    assert not steps.mutates
    assert steps.wake_ns == NOW + 9 * S
    assert steps.waiting["a"].reason == "CrashLoopBackOff"
    assert steps.waiting["a"].message == "back-off 10s restarting failed container=a pod=p_ns(uid-1)"


def test_init_containers_run_strictly_in_order_and_sidecars_before_apps() -> None:
    raw = pod(container("a"), inits=[container("i1"), sidecar("side"), container("i2")])
    assert names(plan(raw, PodStatus(uid="uid-1")).start) == [("i1", 0)]
    assert not plan(raw, status(run("i1"))).mutates
    done = run("i1", "exited")
    assert names(plan(raw, status(done)).start) == [("side", 0)]
    assert names(plan(raw, status(done, run("side"))).start) == [("i2", 0)]
    assert names(plan(raw, status(done, run("side"), run("i2", "exited"))).start) == [("a", 0)]


def test_failed_init_with_never_starts_nothing_more() -> None:
    raw = pod(container("a"), inits=[container("i1")], policy="Never")
    assert not plan(raw, status(run("i1", "exited", code=1, finished=NOW))).mutates


def test_pruned_init_does_not_run_again_once_apps_began() -> None:
    raw = pod(container("a"), inits=[container("i1")])
    assert not plan(raw, status(run("a"))).mutates


def test_sidecar_comes_back_beside_running_apps() -> None:
    raw = pod(container("a"), inits=[sidecar("side")], policy="Never")
    assert names(plan(raw, status(run("a"), run("side", "exited", finished=NOW - S))).start) == [("side", 1)]


def test_dead_sandbox_is_stopped_first_and_recreated_later() -> None:
    dead = SandboxStatus(id="s1", ready=False, attempt=0, created_ns=S)
    first = plan(pod(container("a")), status(run("a"), boxes=[dead]))
    assert [kill.message for kill in first.kill] == ["Stopping container a"]
    assert not first.start
    assert first.create_sandbox == -1
    second = plan(pod(container("a")), status(run("a", "exited", code=137, finished=NOW - S), boxes=[dead]))
    assert second.create_sandbox == 1
    assert names(second.start) == [("a", 1)]


def test_never_is_not_recreated() -> None:
    dead = SandboxStatus(id="s1", ready=False, attempt=0, created_ns=S)
    steps = plan(pod(container("a"), policy="Never"), status(run("a", "exited", finished=NOW), boxes=[dead]))
    assert not steps.mutates


def test_changed_image_kills_and_only_then_restarts() -> None:
    raw = pod(container("a", image="img:2"))
    steps = plan(raw, status(run("a")))
    assert [k.name for k in steps.kill] == ["a"]
    assert not steps.start


def test_created_container_is_only_started_and_a_failed_one_replaced() -> None:
    raw = pod(container("a"))
    left = run("a", "created")
    steps = plan(raw, status(left))
    assert [(s.existing, s.attempt) for s in steps.start] == [(left.id, 0)]
    failed = with_failed_starts(status(left), {left.id: StartFailure(NOW - S, "no such file")})
    assert failed.containers[0].reason == "StartError"
    assert failed.containers[0].exit_code == 128
    assert names(plan(raw, failed).start) == [("a", 1)]


def test_old_attempts_are_removed_but_for_the_last_two() -> None:
    runs = [run("a", "exited", attempt=n, finished=NOW - S) for n in range(3)]
    steps = plan(pod(container("a")), status(*runs, run("a", attempt=3)))
    assert set(steps.remove) == {runs[0].id, runs[1].id}


def test_count_of_a_forgotten_container_goes_on() -> None:
    assert names(plan(pod(container("a")), PodStatus(uid="uid-1"), counts={"a": 4}).start) == [("a", 5)]


def test_doubled_and_unknown_containers_are_killed() -> None:
    doubled = plan(pod(container("a")), status(run("a", attempt=1), run("a", attempt=0)))
    assert [k.id for k in doubled.kill] == ["a-s1-0"]
    assert [k.name for k in plan(pod(container("a")), status(run("a"), run("x"))).kill] == ["x"]
    unsure = plan(pod(container("a")), status(run("a", "unknown")))
    assert [k.name for k in unsure.kill] == ["a"]
    assert not unsure.start


runs = st.builds(
    run,
    st.sampled_from(["a", "b", "i", "side", "x"]),
    st.sampled_from(["running", "exited", "created", "unknown"]),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(1, NOW),
    st.sampled_from(["s1", "s0"]),
    st.sampled_from(["img:1", "img:2"]),
)
boxes = st.lists(
    st.builds(
        SandboxStatus,
        id=st.sampled_from(["s1", "s0"]),
        ready=st.booleans(),
        attempt=st.integers(0, 2),
        created_ns=st.just(1),
    ),
    max_size=2,
    unique_by=lambda b: b.id,
)


@given(st.lists(runs, max_size=6, unique_by=lambda c: c.id), boxes, st.sampled_from(["Always", "OnFailure", "Never"]))
def test_no_plan_starts_what_may_still_run_nor_reuses_an_attempt(
    containers: list[ContainerStatus], found: list[SandboxStatus], policy: str
) -> None:
    raw = pod(container("a"), container("b"), inits=[container("i"), sidecar("side")], policy=policy)
    known = status(*containers, boxes=found)
    steps = plan(raw, known)
    alive = {c.name for c in containers if c.state in ("running", "unknown")}
    for step in steps.start:
        assert step.name not in alive
        attempts = [c.restart_count for c in containers if c.name == step.name]
        assert step.existing or step.attempt > max(attempts, default=-1)
    started = [s.name for s in steps.start]
    assert len(started) == len(set(started))
    assert not (steps.create_sandbox >= 0 and (alive or any(b.ready for b in found)))
