"""More and fewer API processes under open watches: `honcho start -c watcher=2`, then `nodeplane scale watcher`."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.mistreat import hit
from tests.support.plane import BIN, REPO, Plane, stop, until
from tests.support.resuming import Churn, Crowd, Rooted

WATCHES = 100


@pytest.fixture
def plane() -> Iterator[Plane]:
    """Groups control and watcher, run by honcho."""
    made = Plane()
    flags = {"NODEPLANE_PORT": "0", "NODEPLANE_METRICS_PORT": "0", "NODEPLANE_STORE_SYNC": "normal"}
    environment = {**made.environment, **flags, "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = [str(BIN / "honcho"), "start", "-c", "watcher=2", "control", "watcher"]
    honcho = subprocess.Popen(command, cwd=REPO, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("two API processes", lambda: (made.root / "kubeconfig").exists() and len(serving(made)) == 2)
        until("the last of what a fresh root gets", lambda: made.get("configmap", "kube-root-ca.crt"))
        yield made
    finally:
        stop(honcho)
        made.end()
        shutil.rmtree(made.root, ignore_errors=True)


def serving(plane: Plane) -> dict[str, int]:
    """Pid by instance of the API processes that are live."""
    try:
        actors = plane.status()
    except AssertionError:
        return {}
    return {
        name: actor["pid"]
        for name, actor in actors.items()
        if name.startswith("apiserver") and actor["state"] == "live"
    }


async def test_watches_stay_while_processes_come_and_go(plane: Plane) -> None:
    target = Rooted(plane.root)
    async with Crowd([target], WATCHES) as crowd:
        async with Churn([target], "scale") as churn:
            await asyncio.to_thread(plane.nodeplane, "scale", "watcher", "4")
            await asyncio.to_thread(until, "four", lambda: len(serving(plane)) == 4)
            await churn.at_least(3)
            assert all(client.opened == 1 for client in crowd.clients), "more processes disturb nobody"
            await asyncio.to_thread(hit, plane, "apiserver-1")
            await churn.at_least(3)
            await asyncio.to_thread(until, "four again", lambda: len(serving(plane)) == 4)
            await asyncio.to_thread(plane.nodeplane, "scale", "watcher", "2")
            await asyncio.to_thread(until, "two", lambda: len(serving(plane)) == 2)
            await churn.at_least(3)
        assert not churn.refused, churn.refused
        acknowledged = sorted(churn.acknowledged.values())
        await crowd.caught_up(acknowledged[-1])
        unanswered = set(crowd.clients[0].seen) - set(acknowledged)
        assert len(unanswered) <= len(churn.unknown)
        crowd.check(sorted([*acknowledged, *unanswered]))
