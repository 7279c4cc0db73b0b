"""The stage of a script about DRA drivers."""

import asyncio
import time
from collections.abc import Sequence, Set
from pathlib import Path
from typing import ClassVar

from supervisor.conform.dra.driver_kubelet import DriverAttempt, DriverKubelet
from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.pools import Name, Pool, names_of
from supervisor.conform.program import Launcher
from supervisor.conform.program_stage import ProgramStage
from supervisor.conform.registry import is_served
from supervisor.conform.verdict import Failed

POLL_S = 0.2


class DriverStage(ProgramStage[DriverPeer, DriverAttempt]):
    """The driver under test, the played kubelet and the API with its ResourceSlices."""

    SUBJECT: ClassVar[str] = "driver"
    CALL: ClassVar[str] = "registration"

    def __init__(self, kubelet: DriverKubelet, launcher: Launcher, timeout: float) -> None:
        self.kubelet, self.objects = kubelet, kubelet.objects
        super().__init__(kubelet, launcher, timeout)

    async def drivers(self) -> list[DriverPeer]:
        """Return the connection of each driver, once its pools are complete. Raises NotServing."""
        return await self.peers()

    async def ready(self, peer: DriverPeer) -> list[str]:
        await self.bound(peer.socket)
        peer.open_health()
        await self.complete(peer)
        return [f"{device.pool}/{device.name}" for pool in peer.pools for device in pool.devices]

    async def bound(self, endpoint: Path) -> None:
        """Wait for the service's socket, which may come after the registration. Raises Failed."""
        if not await self.until(lambda: is_served(endpoint), self.timeout):
            why = f"{self.timeout:g} s after the registration" if self.program.runs else self.program.end
            raise Failed(f"nobody serves the endpoint {endpoint}: {why}")

    async def complete(self, peer: DriverPeer, names: Set[Name] | None = None) -> None:
        """Wait until all pools of the driver are complete, with these devices if given. Raises Failed."""
        deadline = time.monotonic() + self.timeout
        while fault := pools_fault(await peer.published(), names):
            if time.monotonic() > deadline or not self.program.runs:
                raise Failed(f"{fault}, after {self.timeout:g} s")
            await asyncio.sleep(POLL_S)

    async def again(self, driver: DriverPeer) -> DriverPeer:
        """SIGTERM, start the program anew, and return its connection of the same driver. Raises Failed."""
        await self.program.terminate(self.timeout)
        await self.restart_program()
        return await self.served(driver.name, started=True)

    async def end(self) -> None:
        """End as a node that reboots: no socket is left in the directories of plugins."""
        await super().end()
        self.kubelet.remove_sockets()
        await self.objects.delete_pods()


def pools_fault(pools: Sequence[Pool], names: Set[Name] | None) -> str:
    """Return what keeps pods from being scheduled by these pools, or what differs from the expected devices."""
    if not pools:
        return "no ResourceSlice is there"
    for pool in pools:
        if not pool.complete:
            counts = " and ".join(map(str, sorted(pool.counts)))
            return f"pool {pool.name} has {len(pool.slices)} slices of generation {pool.generation}, not {counts}"
        if pool.outdated:
            return f"pool {pool.name} has {pool.outdated} slices of a generation before {pool.generation}"
    published = names_of(pools)
    if names is None or published == names:
        return ""
    missing, more = names - published, published - names
    return f"{'/'.join(min(missing or more))} is {'in no slice any more' if missing else 'still in a slice'}"
