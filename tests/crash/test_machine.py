"""The machine's own faults: no descriptors left, no memory left, a clock that jumps; and everybody goes on after it."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.mistreat import pids
from tests.support.plane import Plane, until
from tests.support.plane_client import connect
from tests.support.shared_fixtures import plane_with_devices
from tests.support.witnesses import CONFIGMAPS, Witnesses, container_of, lives, others, pod, with_devices

BEHIND = ("store", "watchcache", "controllers", "scheduler", "runtime", "cri", "pleg", "devices", "podworker", "health")
CLOCK = Path(__file__).parents[1] / "support" / "clock"
DAY = 86400
JUMPS = (-400 * DAY, 3 * DAY)

plane = plane_with_devices


@contextmanager
def limited(pid: int, kind: int, now: int) -> Iterator[None]:
    """The process may have no more of it than it has; undone at the end, if it still lives."""
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (now, before[1]))
    try:
        yield
    finally:
        if os.path.exists(f"/proc/{pid}"):
            resource.prlimit(pid, kind, before)


@contextmanager
def without_descriptors(plane: Plane, *actors: str) -> Iterator[None]:
    held = [
        limited(pid, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{pid}/fd"))) for pid in pids(plane, actors).values()
    ]
    for each in held:
        each.__enter__()
    yield
    for each in held:
        each.__exit__(None, None, None)


def visit(plane: Plane) -> None:
    plane.pod_ready("visitor")
    plane.delete("pod", "visitor")


def test_without_a_descriptor_to_spare_nobody_dies(plane: Plane) -> None:
    before = lives(plane)
    with Witnesses(plane):
        with without_descriptors(plane, *BEHIND, "frontdoor"):
            plane.apply(pod("visitor", devices=2))
            time.sleep(1)
        visit(plane)
        with without_descriptors(plane, "apiserver-0"):
            for _ in range(20):
                knock(plane, timeout=0.1)
        until("served again", lambda: knock(plane))
    assert lives(plane) == before


def test_an_api_process_out_of_memory_serves_again(plane: Plane) -> None:
    """Whether by itself, or because it ended and was started anew: never that it lives and serves nobody."""
    before = lives(plane)
    pid = before["apiserver-0"][0]
    with Witnesses(plane):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        with limited(pid, resource.RLIMIT_AS, pages * os.sysconf("SC_PAGE_SIZE")):
            for _ in range(10):
                knock(plane, timeout=0.3)
        until("served again", lambda: knock(plane))
    after = lives(plane)
    assert others(after, "apiserver-0") == others(before, "apiserver-0")


@pytest.mark.timeout(300)
def test_a_clock_that_jumps_costs_nothing() -> None:
    """A year back, and then days ahead, as seen by every process of the plane; the clients' clock stays."""
    plane = Plane()
    clock = plane.root / "clock"
    clock.write_text("0")
    plane.environment |= {"PYTHONPATH": str(CLOCK), "NODEPLANE_TEST_CLOCK": str(clock)}
    with plane:
        with_devices(plane)
        plane.apply(pod("resident", devices=2))
        plane.pod_ready("resident")
        before = lives(plane), container_of(plane, "resident")
        for jump in JUMPS:
            with Witnesses(plane):
                fresh = clock.with_suffix(".new")
                fresh.write_text(str(jump))
                fresh.replace(clock)  # who finds it half written waits for a second more
                time.sleep(1.2)  # until everybody has read it
                plane.apply(pod("visitor", devices=2))
                made = plane.get("pod", "visitor")["metadata"]["creationTimestamp"]
                assert abs(datetime.fromisoformat(made).timestamp() - time.time() - jump) < DAY
                visit(plane)
        assert (lives(plane), container_of(plane, "resident")) == before


def knock(plane: Plane, timeout: float = 2.0) -> bool:
    """Whether a new connection is served."""
    connection = connect(plane.root, timeout)
    try:
        connection.request("GET", f"{CONFIGMAPS}?limit=1")
        with connection.getresponse() as answer:
            return answer.status == 200
    except (OSError, ValueError):
        return False
    finally:
        connection.close()
