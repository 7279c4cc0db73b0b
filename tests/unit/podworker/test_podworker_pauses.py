import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.bus import Unavailable, error_for
from protocols.lifecycle.pods.types import SECOND, PodActions, Start
from protocols.lifecycle.restarts.backoff import RETRY_S, SANDBOX, Pauses
from tests.support.podworker_fakes import FakeDependencies, container, pod
from tests.support.podworker_scene import Scene, at_work

A = Start("a", 0)
NOW = 1_000 * SECOND
SLOW = [error_for("UNKNOWN", "refused") for _ in range(50)]


def plan(*names: str, sandbox: str = "s1", create: int = -1, wake: int = 0) -> PodActions:
    return PodActions(
        start=tuple(Start(name, 0) for name in names), sandbox=sandbox, create_sandbox=create, wake_ns=wake
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 10_000 * SECOND))
def test_each_pause_is_10_to_15_seconds_however_many_there_were(jitters: list[float], now: int) -> None:
    for jitter in jitters:
        pause = Pauses(jitter=lambda: jitter).failed(A, "s1", now)  # noqa: B023 # used at once
        assert 10 * SECOND <= pause.until_ns - now <= 15 * SECOND
        now = pause.until_ns


def test_what_is_too_early_is_left_out_and_the_rest_done() -> None:
    pauses = Pauses(jitter=lambda: 0.0)
    pauses.failed(A, "s1", NOW)
    early = pauses.applied(plan("a", "b", wake=NOW + 60 * SECOND), NOW + SECOND)
    assert [step.name for step in early.start] == ["b"]
    assert early.wake_ns == NOW + int(RETRY_S * SECOND)
    assert [step.name for step in pauses.applied(plan("a"), early.wake_ns).start] == ["a"]


def test_one_that_was_made_after_all_is_started() -> None:
    pauses, made = Pauses(), Start("a", 0, existing="c1")
    pauses.failed(A, "s1", NOW)
    assert pauses.applied(PodActions(start=(made,), sandbox="s1"), NOW).start == (made,)
    pauses.failed(made, "s1", NOW)
    assert not pauses.applied(PodActions(start=(made,), sandbox="s1"), NOW).start


def test_another_sandbox_is_another_matter() -> None:
    pauses = Pauses()
    pauses.failed(A, "s1", NOW)
    assert [step.name for step in pauses.applied(plan("a", sandbox="s2"), NOW).start] == ["a"]
    pauses.failed(SANDBOX, "", NOW)
    held = pauses.applied(plan("a", sandbox="", create=1), NOW)
    assert not held.mutates
    assert held.wake_ns > NOW


def test_what_is_likely_to_pass_is_asked_soon_and_then_less_often() -> None:
    pauses, delays = Pauses(jitter=lambda: 0.0), []
    for _ in range(6):
        delays.append(pauses.failed(A, "s1", NOW, soon=True).until_ns - NOW)
    assert delays == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 10 * SECOND, 10 * SECOND]
    pauses.passed("a")
    assert pauses.failed(A, "s1", NOW, soon=True).times == 1


def test_cleared() -> None:
    pauses = Pauses()
    assert not pauses.clear()
    pauses.failed(A, "s1", NOW)
    assert pauses.clear()
    assert pauses.applied(plan("a"), NOW) == plan("a")


def test_pause_ends_when_the_clock_goes_back_before_the_failure() -> None:
    pauses = Pauses()
    pauses.failed(A, "s1", NOW)
    assert not pauses.applied(plan("a"), NOW).mutates
    assert pauses.applied(plan("a"), NOW - SECOND) == plan("a")


class Frozen(Scene):
    """Its clock stands, but for what the test lets pass, and a nanosecond each time it is read."""

    reads = 0

    def clock(self) -> int:
        self.reads += 1
        return NOW + self.skew_ns + self.reads

    async def passes(self, seconds: float) -> None:
        self.skew_ns += int(seconds * SECOND)
        await self.settle()

    async def settle(self) -> None:
        """Looks until one finds nothing to do: whatever was to be tried has been."""
        for _ in range(5):
            looks = len(self.fake.recorder.events), len(self.fake.runtime.calls)
            self.worker.wake()
            await self.until(lambda: not self.worker._woken.is_set() and self.worker._step and self.worker._step.done())
            if looks == (len(self.fake.recorder.events), len(self.fake.runtime.calls)):
                return


@pytest.mark.parametrize(
    ("call", "shows"),
    [("create_container", "CreateContainerError"), ("run_sandbox", "ContainerCreating"), ("secret", "Config")],
)
async def test_a_start_that_fails_is_tried_each_10_to_15_seconds_whatever_wakes_the_pod(
    tmp_path: Path, call: str, shows: str
) -> None:
    def tries(fake: FakeDependencies) -> int:
        failed = [e for e in fake.recorder.events if e[1] in ("Failed", "FailedCreatePodSandBox")]
        return fake.runtime.count(call) or len(failed)

    wants = [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}] if call == "secret" else []
    scene = Frozen(tmp_path, pod(container("a", env=wants)))
    scene.fake.runtime.fail[call] = list(SLOW)
    async with at_work(scene):
        await scene.until(lambda: shows in scene.shown("a").get("state", {}).get("waiting", {}).get("reason", ""))
        await scene.settle()
        for count in range(1, 6):
            assert tries(scene.fake) == count
            for _ in range(9):
                await scene.passes(1)
            assert tries(scene.fake) == count
            await scene.passes(6)
        scene.worker.update({**scene.raw, "metadata": {**scene.raw["metadata"], "resourceVersion": "2"}})
        await scene.until(lambda: tries(scene.fake) == 7)


async def test_others_of_the_pod_do_not_wait_for_it(tmp_path: Path) -> None:
    scene = Frozen(tmp_path, pod(container("a"), container("b")))
    scene.fake.runtime.fail["create_container"] = list(SLOW[:1])
    async with at_work(scene):
        await scene.running("b")
        scene.fake.runtime.end(scene.fake.runtime.running("b")[0].id, 1)
        await scene.until(lambda: scene.shown("b").get("restartCount") == 1)
        assert scene.shown("a")["state"]["waiting"]["reason"] == "CreateContainerError"
        await scene.passes(15)
        await scene.running("a")


async def test_a_runtime_that_was_away_is_asked_again_as_soon_as_it_is_back(tmp_path: Path) -> None:
    scene = Frozen(tmp_path)
    scene.fake.runtime.fail["create_container"] = [random.choice(SLOW), Unavailable("away")]
    async with at_work(scene):
        await scene.until(lambda: scene.shown("a").get("state", {}).get("waiting", {}).get("message") == "refused")
        scene.worker.retry()
        await scene.until(lambda: scene.fake.runtime.count("create_container") == 2)
        await scene.until(lambda: scene.worker._failures)
        scene.worker.retry()
        await scene.running()


async def test_a_failed_sync_is_tried_again_after_the_clock_went_back(tmp_path: Path) -> None:
    scene = Frozen(tmp_path)
    scene.fake.runtime.fail["create_container"] = [Unavailable("away")]
    async with at_work(scene):
        await scene.until(lambda: scene.worker._failures)
        scene.skew_ns -= 500 * SECOND
        scene.worker.wake()
        await scene.running()


async def test_a_pod_waits_for_the_runtimes_network(tmp_path: Path) -> None:
    fault = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no cni"
    scene = Frozen(tmp_path, pod())
    scene.fake.network = lambda: fault
    async with at_work(scene):
        event = ("Warning", "NetworkNotReady", f"network is not ready: {fault}")
        await scene.until(lambda: event in scene.fake.recorder.events)
        await scene.settle()
        assert not scene.fake.runtime.count("run_sandbox")
        scene.fake.network = lambda: ""
        scene.worker.retry()
        await scene.running()


async def test_a_pod_on_the_hosts_network_does_not_wait_for_the_runtimes(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(hostNetwork=True))
    scene.fake.network = lambda: "not ready"
    async with at_work(scene):
        await scene.running()
        assert "NetworkNotReady" not in scene.fake.recorder.reasons()


def test_pause_that_passed_tells_since_when_and_why() -> None:
    pauses = Pauses(jitter=lambda: 0.0)
    pauses.failed(A, "s1", NOW, why="first")
    pauses.failed(A, "s1", NOW + 5, why="last")
    passed = pauses.passed("a")
    assert passed is not None
    assert (passed.began_ns, passed.why) == (NOW, "last")
    assert pauses.passed("a") is None
