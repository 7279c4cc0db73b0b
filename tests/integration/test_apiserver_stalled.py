"""A request that holds the event loop for ever: it is named, and no process of the port is stopped by it again."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.process import stalls
from protocols.process.stalls import Stall
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.slow_apiserver import SPIN

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SERVERS = ("apiserver-0", "apiserver-1")
CONNECTIONS = 12
"""Enough that each of two processes gets some."""
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Two API servers that a request can stop."""
    with running_plane() as started:
        started.kubectl("create", "clusterrole", "free", "--verb=*", "--resource=configmaps")
        started.kubectl("create", "clusterrolebinding", "free", "--clusterrole=free", "--group=system:authenticated")
        started.kill("apiserver-0")
        for instance in SERVERS:
            spawn(started, instance)
        started.wait_ready()
        yield started


def spawn(plane: Plane, instance: str) -> None:
    arguments = ["--settings", str(plane.settings.layout.settings), "--instance", instance]
    command = [sys.executable, "-m", "tests.support.slow_apiserver", *arguments]
    with (plane.root / f"{instance}.log").open("ab") as log:
        plane.processes[instance] = subprocess.Popen(command, cwd=REPOSITORY, stderr=log)


async def asked(plane: Plane, user: str, method: str, path: str, name: str = "") -> tuple[int, str]:
    """Status and Retry-After, over a connection of its own."""
    body = {"metadata": {"name": name}} if name else None
    async with (
        plane.client() as session,
        session.request(method, path, json=body, headers={"Impersonate-User": user}) as answer,
    ):
        await answer.read()
        return answer.status, answer.headers.get("Retry-After", "")


async def recorded(plane: Plane) -> Stall:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := list(stalls.read_all(plane.settings.layout.run))):
        assert time.monotonic() < deadline, plane.logs()
        await asyncio.sleep(0.05)
    return found[0]


async def all_answer(plane: Plane, status: int, user: str, method: str) -> list[str]:
    """Wait until every process answers so; the Retry-After of each answer."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        path = f"{CONFIGMAPS}?fieldManager=again"
        answers = [await asked(plane, user, method, path, "again") for _ in range(CONNECTIONS)]
        if {code for code, _ in answers} == {status}:
            return [later for _, later in answers]
        assert time.monotonic() < deadline, answers


async def test_a_request_that_stopped_a_process_is_named_and_refused_by_all(plane: Plane) -> None:
    path = f"{CONFIGMAPS}?fieldManager={SPIN}"
    spinning = asyncio.create_task(asked(plane, "mallory", "POST", path, "one"))
    stall = await recorded(plane)
    assert stall.what == f"user='mallory' verb=create path={path!r}"
    assert plane.processes[stall.instance].pid == stall.pid
    os.kill(stall.pid, signal.SIGKILL)  # as its supervisor does
    plane.processes[stall.instance].wait(30)
    with contextlib.suppress(Exception):
        await spinning
    spawn(plane, stall.instance)
    await asyncio.to_thread(plane.wait_ready)
    later = await all_answer(plane, 429, "mallory", "POST")
    assert all(0 < int(each) <= stalls.KEPT_S for each in later)
    assert (await asked(plane, "mallory", "GET", CONFIGMAPS))[0] == 200
    assert (await asked(plane, "bob", "POST", CONFIGMAPS, "bobs"))[0] == 201


def test_a_stopped_process_that_goes_on_refuses_nothing(plane: Plane) -> None:
    """The whole process stood still, not its loop alone."""
    process = plane.processes["apiserver-1"]
    process.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    process.send_signal(signal.SIGCONT)

    async def play() -> None:
        for _ in range(CONNECTIONS):
            assert (await asked(plane, "bob", "GET", CONFIGMAPS))[0] == 200

    asyncio.run(play())
