"""Actors that hang, or die together: the supervisor puts each right, and nobody else loses anything."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.support.mistreat import hit, parent, pids, replaced
from tests.support.plane import Plane, until
from tests.support.witnesses import Witnesses, container_of, lives, main_status, others, pod, with_devices

EVERY = ("store", "watchcache", "controllers", "scheduler", "apiserver-0", "runtime", "cri", "pleg", "devices")
EVERY += ("podworker", "health", "frontdoor")
TOGETHER = (("store", "watchcache"), ("devices", "frontdoor"), ("cri", "pleg", "podworker"), EVERY)
HUNG = ("store", "apiserver-0", "runtime", "pleg", "devices", "podworker")
SHORT_S = 1.0
"""A stop that is no hang."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with devices and a resident pod that holds two."""
    with Plane() as plane:
        with_devices(plane)
        plane.apply(pod("resident", devices=2))
        plane.pod_ready("resident")
        yield plane
        plane.settled()


@pytest.fixture(autouse=True)
def _resident(plane: Plane) -> Iterator[None]:
    """Whatever happens, a container that was running runs on: same process, same devices, no restart."""
    before = container_of(plane, "resident")
    yield
    assert container_of(plane, "resident") == before
    plane.served()
    assert main_status(plane.get("pod", "resident"))["restartCount"] == 0


def visit(plane: Plane) -> None:
    """The whole path works: a pod comes, gets a device, and goes."""
    plane.served()
    plane.apply(pod("visitor", devices=2))
    plane.pod_ready("visitor")
    plane.kubectl("delete", "pod", "visitor")


def test_hung_actors_are_killed_and_nobody_else_is(plane: Plane) -> None:
    """Half of the plane hangs, its owners of state first of all; the other half waits and is left alone."""
    before = lives(plane)
    with Witnesses(plane):
        replaced(plane, hit(plane, *HUNG, number=signal.SIGSTOP))
        visit(plane)
    assert others(lives(plane), *HUNG) == others(before, *HUNG)
    reasons = {actor: plane.status()[actor]["last_reason"] for actor in HUNG}
    assert all(reason.startswith("hung: no beat") for reason in reasons.values()), reasons


def test_a_short_stop_costs_no_restart(plane: Plane) -> None:
    before = lives(plane)
    with Witnesses(plane) as witnesses:
        hit(plane, *EVERY, number=signal.SIGSTOP)
        count = len(witnesses.writer.acknowledged)
        time.sleep(SHORT_S)
        hit_again(before)
        until("writes go on", lambda: len(witnesses.writer.acknowledged) > count + 2)
        visit(plane)
    assert lives(plane) == before


def test_actors_that_die_together(plane: Plane) -> None:
    with Witnesses(plane):
        for victims in TOGETHER:
            before = lives(plane)
            replaced(plane, hit(plane, *victims))
            visit(plane)
            after = lives(plane)
            assert others(after, *victims) == others(before, *victims)
            assert all(after[victim][1] == before[victim][1] + 1 for victim in victims)


def test_a_killed_forkserver_costs_every_actor_one_restart(plane: Plane) -> None:
    before = pids(plane, EVERY)
    (forkserver,) = {parent(pid) for pid in before.values()}
    with Witnesses(plane):
        os.kill(forkserver, signal.SIGKILL)
        replaced(plane, before)
        visit(plane)


def hit_again(before: dict[str, tuple[int, int]]) -> None:
    for pid, _ in before.values():
        os.kill(pid, signal.SIGCONT)
