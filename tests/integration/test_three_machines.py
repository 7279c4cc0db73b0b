"""Three API machines, each a network namespace, on three members of etcd: one of each is killed under load."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.etcd_fixture import etcd_binary
from tests.support.actor_process import REPOSITORY, Process
from tests.support.apiserver_plane import Plane
from tests.support.etcd_cluster import Cluster, cluster
from tests.support.netns import Machine, network
from tests.support.resuming import Churn, Crowd, judge, stored

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and ip"),
]
MACHINES, WATCHES = 3, 150
EVERY_S = 0.02
RESUMED_S = 5.0
ETCD_GIVES_UP_S = 7.0
"""When etcd gives up a write that its old leader took: 5 s and two election timeouts, and a second."""


class MachinePlane(Plane):
    """A control plane whose processes have the network of one machine."""

    def __init__(self, machine: Machine, sharing: Plane | None, **changes: Any) -> None:
        self._machine = machine
        super().__init__(sharing, bind_address=machine.address, **changes)

    def _start_actor(self, instance: str, log: Path) -> Process:
        module = f"actors.{instance.partition('-')[0]}.actor"
        arguments = ("--settings", str(self.settings.layout.settings), "--instance", instance)
        command = self._machine.within([sys.executable, "-m", module, *arguments])
        with log.open("ab") as file:
            return subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stderr=file)

    def die(self) -> None:
        for instance in list(self.processes):
            self.kill(instance)

    def come_back(self) -> None:
        for instance in ("watchcache", "apiserver-0"):
            self.spawn(instance)
        self.wait_ready()


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Cluster, list[MachinePlane]]]:
    """An etcd of three members with TLS, and three machines that use it."""
    with ExitStack() as stack:
        net = stack.enter_context(network(MACHINES))
        members = stack.enter_context(cluster(etcd_binary(), members=3, tls=True, address=net.here))
        names = tuple(machine.address for machine in net.machines)
        planes: list[MachinePlane] = []
        for machine in net.machines:
            changes = {"store_endpoints": members.endpoints, "store_embedded": False, "etcd_files": members.files}
            plane = MachinePlane(machine, planes[0] if planes else None, api_names=names, **changes)
            stack.callback(plane.close)
            plane.start()
            planes.append(plane)
        yield members, planes


async def test_watches_and_writes_go_on_while_a_member_and_a_machine_die(
    site: tuple[Cluster, list[MachinePlane]],
) -> None:
    members, planes = site
    before = set(await stored(planes[0]))
    async with Crowd(planes, WATCHES) as crowd:
        async with Churn(planes[1:], "held", EVERY_S) as churn:
            await churn.at_least(50)
            members.kill(0)
            await churn.at_least(100)
            await asyncio.to_thread(planes[0].die)
            await churn.at_least(100)
            members.start(0)
            await asyncio.to_thread(members.wait)
            await asyncio.to_thread(planes[0].come_back)
            await churn.at_least(50)
        assert churn.slowest < ETCD_GIVES_UP_S
        await judge(planes[1], crowd, churn, before)
    moved = [client for client in crowd.clients if client.opened > 1]
    assert 0 < len(moved) < WATCHES // 2, "the watches of the other machines never broke"
    assert max(client.opened for client in moved) == 2
    assert max(client.resumed_after for client in moved) < RESUMED_S


async def test_whole_load_moves_to_the_last_machine_and_back(site: tuple[Cluster, list[MachinePlane]]) -> None:
    members, planes = site
    before = set(await stored(planes[0]))
    async with Crowd(planes, WATCHES) as crowd:
        async with Churn(planes[2:], "last", EVERY_S) as churn:
            for plane in planes[:2]:
                await churn.at_least(30)
                await asyncio.to_thread(plane.die)
            members.kill(1)
            await churn.at_least(50)
            members.start(1)
            await asyncio.to_thread(members.wait)
            for plane in planes[:2]:
                await asyncio.to_thread(plane.come_back)
            await churn.at_least(30)
        await judge(planes[2], crowd, churn, before)
