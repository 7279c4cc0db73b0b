"""Pods and plugins on a bad day: a plugin dies, a pod goes while nobody looks, a process will not end."""

import os
import time
from collections.abc import Iterator

import pytest

from tests.support.plane import Plane, stop, until, until_nothing
from tests.support.shared_fixtures import plane_with_devices
from tests.support.witnesses import (
    Witnesses,
    allocatable,
    container_of,
    device_health,
    main_status,
    pod,
)

LOOKED_AT_S = 2.5
STUBBORN = "trap '' TERM; while true; do sleep 0.2; done"

plane = plane_with_devices


@pytest.fixture
def holder(plane: Plane) -> Iterator[str]:
    """A pod that holds two devices."""
    plane.apply(pod("holder", devices=2))
    plane.pod_ready("holder")
    yield "holder"
    plane.kubectl("delete", "pod", "holder", "--ignore-not-found")


def test_a_process_that_ignores_sigterm_ends_after_its_grace(plane: Plane) -> None:
    with Witnesses(plane) as witnesses:
        plane.apply(pod("stubborn", STUBBORN, devices=1, grace=2))
        plane.pod_ready("stubborn")
        pid, _ = container_of(plane, "stubborn")
        began = time.monotonic()
        plane.delete("pod", "stubborn")
        assert 1.9 < time.monotonic() - began < 25
        assert not os.path.exists(f"/proc/{pid}")
        until("its end, as it was told", lambda: 137 in exit_codes(witnesses, "stubborn"))


def exit_codes(witnesses: Witnesses, name: str) -> set[int | None]:
    told = [main_status(event.object) for event in list(witnesses.pods.events) if event.name == name]
    return {status.get("state", {}).get("terminated", {}).get("exitCode") for status in told}


def test_down_and_up_with_a_pod_running(plane: Plane, holder: str) -> None:
    """`down` ends the containers, the next `up` runs them again: same pod, same devices, told as a restart.

    Once more, it is no crash loop.
    """
    uid, (pid, devices) = plane.get("pod", holder)["metadata"]["uid"], container_of(plane, holder)
    with Witnesses(plane):
        plane.down()
        assert not os.path.exists(f"/proc/{pid}")
        assert not until_nothing(plane.processes)
        plane.up()
        until("a new container", lambda: container_of(plane, holder)[0] not in (0, pid))
        found = until("told", lambda: restarted(plane, holder), every=0.1)
        assert found["metadata"]["uid"] == uid
        assert container_of(plane, holder)[1] == devices
        until("both devices Healthy", lambda: healths(plane, holder) == ["Healthy", "Healthy"], every=0.1)
    pid, _ = container_of(plane, holder)
    plane.down()
    plane.up()
    until("a new container at once", lambda: container_of(plane, holder)[0] not in (0, pid))


def test_down_that_keeps_containers(plane: Plane, holder: str) -> None:
    before, restarts = container_of(plane, holder), main_status(plane.get("pod", holder))["restartCount"]
    with Witnesses(plane):
        plane.nodeplane("down", "--keep-containers", timeout=100)
        assert container_of(plane, holder) == before
        plane.up()
        until("both devices Healthy", lambda: healths(plane, holder) == ["Healthy", "Healthy"], every=0.1)
        assert container_of(plane, holder) == before
        assert main_status(plane.get("pod", holder))["restartCount"] == restarts


def healths(plane: Plane, name: str) -> list[str]:
    return list(device_health(plane.get("pod", name)).values())


def restarted(plane: Plane, name: str) -> dict[str, dict[str, str]]:
    found = plane.get("pod", name)
    status = main_status(found)
    return found if status.get("restartCount") == 1 and status.get("ready") else {}


@pytest.mark.scenario("S23")
def test_a_pod_that_succeeded_stays_so_without_its_plugin(plane: Plane) -> None:
    """A finalizer keeps it; its plugin is gone, and everybody on the node is restarted."""
    done = pod("done", "exit 0", devices=2, restartPolicy="Never")
    done["metadata"]["finalizers"] = ["example.com/keep"]
    plane.apply(done)
    until("it succeeded", lambda: plane.get("pod", "done").get("status", {}).get("phase") == "Succeeded")
    stop(plane.plugins[0])
    until("none allocatable", lambda: allocatable(plane) == "0", every=0.1)
    for actor in ("devices", "podworker", "pleg", "runtime"):
        plane.kill(actor)
    plane.settled()
    deadline = time.monotonic() + LOOKED_AT_S
    while time.monotonic() < deadline:
        assert plane.get("pod", "done")["status"]["phase"] == "Succeeded"
        time.sleep(0.2)
    assert "done" not in plane.nodeplane("devices"), "it holds no device any more"
    plane.delete("pod", "done", wait=False)
    plane.kubectl("patch", "pod", "done", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until("the pod is gone", lambda: not plane.get("pod", "done"))
