"""The story of issue and tutorial, with two actors killed during each of its steps; then the oracle judges.

The simulation's profiles `control` and `node` kill every actor at every moment; here processes, sockets and files are
real.
NODEPLANE_CRASH_ROUNDS=N repeats each story N times with other timings (default 1), NODEPLANE_CRASH_SEED fixes them.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import oracle
from tests.support.equality import nothing_left, replicas_equal
from tests.support.plane import Plane, condition, until
from tests.support.podwatch import PodWatch
from tests.support.seed import ROUNDS, SEED
from tests.support.watchers import ApiWatcher
from tests.support.witnesses import allocatable, device_health, main_status, pod, with_devices
from tests.support.writer import Writer

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpu-pod.yaml"
CONTROL = ("store", "watchcache", "apiserver-0", "scheduler", "controllers")
NODE = ("runtime", "cri", "pleg", "devices", "podworker", "health", "frontdoor")
RESOURCE = "example.com/gpu"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with devices and a pod that holds two all the while."""
    with Plane() as plane:
        with_devices(plane)
        plane.apply(pod("rival", devices=2))  # holds the other two all the while
        plane.pod_ready("rival")
        yield plane


class Story:
    """Each step starts something, an actor dies meanwhile, and the step's end must come about all the same."""

    def __init__(self, plane: Plane, dice: random.Random) -> None:
        self.plane = plane
        self.dice = dice
        self.held: list[str] = []

    def steps(self) -> list[Callable[[], Callable[[], object]]]:
        return [self.apply, self.break_device, self.mend_device, self.kill_container, self.delete]

    def apply(self) -> Callable[[], object]:
        retried("apply", lambda: self.plane.apply(EXAMPLE))
        return lambda: ready(self.plane) and len(health(self.plane)) == 2

    def break_device(self) -> Callable[[], object]:
        self.held = sorted(until("its devices", lambda: health(self.plane)))
        return self._set_device("unhealthy", "Unhealthy")

    def mend_device(self) -> Callable[[], object]:
        return self._set_device("healthy", "Healthy")

    def _set_device(self, word: str, expected: str) -> Callable[[], object]:
        device = self.held[0]
        retried(word, lambda: self.plane.chaos("device", RESOURCE, device, word))
        return lambda: health(self.plane).get(device) == expected

    def kill_container(self) -> Callable[[], object]:
        before = restarts(until("its pod", lambda: self.plane.get("pod", "gpu-pod")))
        for pid in until("the container's process", lambda: own_containers(self.plane)):
            os.kill(pid, signal.SIGKILL)
        return lambda: restarts(self.plane.get("pod", "gpu-pod")) > before and ready(self.plane)

    def delete(self) -> Callable[[], object]:
        retried("delete", lambda: self.plane.kubectl("delete", "pod", "gpu-pod", "--wait=false"))
        return lambda: pod_gone(self.plane)


@pytest.mark.timeout(600 * ROUNDS)
def test_the_story_survives_two_random_deaths_at_each_step(plane: Plane) -> None:
    for round_ in range(ROUNDS):
        tell(plane, random.Random(f"{SEED} any {round_}"))


def tell(plane: Plane, dice: random.Random) -> None:
    print(f"seed {SEED}")
    pods, story = ApiWatcher(plane, "/api/v1/pods"), Story(plane, dice)
    resources, writer = PodWatch(plane), Writer(plane)
    try:
        for step in story.steps():
            victims = dice.choices(CONTROL + NODE, k=2)
            killers = [killer(plane, victim, dice.uniform(0, 0.4)) for victim in victims]
            done = step()
            for thread in killers:
                thread.join(60)
            until(f"end of {step.__name__} with {victims} killed (seed {SEED})", done, 90, every=0.1)
            oracle.no_device_twice(plane)
    finally:
        writer.close()
    judge(plane, pods, resources, writer)


def judge(plane: Plane, pods: ApiWatcher, resources: PodWatch, writer: Writer) -> None:
    plane.settled()
    writer.nothing_lost()
    oracle.watch_missed_nothing(plane, pods, "/registry/pods/")
    pods.close()
    resources.close()
    resources.is_consistent()
    replicas_equal(plane, resources)
    nothing_left(plane)
    until("all devices free", lambda: not own_containers(plane))
    until("4 devices", lambda: allocatable(plane) == "4")


def killer(plane: Plane, actor: str, after: float) -> threading.Thread:
    """Kills `actor` by hand (kill -9 of its pid) some time from now."""

    def strike() -> None:
        time.sleep(after)
        pid = plane.status()[actor]["pid"]
        if pid:
            with contextlib.suppress(ProcessLookupError):  # another killer of this step was faster
                os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


def retried(what: str, act: Callable[[], object]) -> None:
    """A person repeats a command whose API server died under it; only the outcome counts."""

    def attempt() -> bool:
        try:
            act()
        except AssertionError:
            return False
        return True

    until(what, attempt, 90, every=0.2)


def ready(plane: Plane) -> bool:
    return condition(plane.get("pod", "gpu-pod"), "Ready") == "True"


def health(plane: Plane) -> dict[str, str]:
    return device_health(plane.get("pod", "gpu-pod"))


def restarts(found: dict[str, Any]) -> int:
    return int(main_status(found).get("restartCount", 0))


def pod_gone(plane: Plane) -> bool:
    return [each["metadata"]["name"] for each in plane.list("pod")] == ["rival"] and not own_containers(plane)


def own_containers(plane: Plane) -> list[int]:
    return [pid for pid, around in oracle.containers(plane).items() if around.get("HOSTNAME") == "gpu-pod"]
