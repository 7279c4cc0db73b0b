"""The DRA side of a node in the test's own process: watcher, drivers, claims and health, with short times."""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from actors.devices.dra.health import HealthOverrides
from actors.devices.dra.manager import DraManager, DraOptions
from actors.devices.dra.types import DraLimits
from actors.devices.model.errors import CheckpointNotWritten
from actors.devices.watcher.watcher import PluginWatcher, WatcherOptions
from protocols.bus import Bus, BusOptions, Replica
from protocols.lifecycle.devices.claims import PodClaims
from protocols.messages import devices as messages
from protocols.messages.devices import (
    ChaosDevice,
    ClaimReference,
    ClaimResult,
    ContainerAllocation,
    DeviceHealth,
    DraDriver,
    PodAllocation,
    PodClaim,
    PrepareClaims,
    PreparedClaims,
    UnprepareClaims,
)
from protocols.wire.plugins import DRA_PLUGIN
from tests.support.device_node import until
from tests.support.stub_driver import StubDriver

GPU, NIC = "gpu.example.com", "nic.example.com"


def claim(name: str, *drivers: str, uid: str = "", entry: str = "") -> PodClaim:
    """A claim with one device of each driver."""
    results = tuple(ClaimResult(request="r", driver=driver, pool="n1", device="dev-0") for driver in drivers or (GPU,))
    return PodClaim(entry=entry or name, namespace="ns", name=name, uid=uid or f"{name}-uid", results=results)


def asks(uid: str, *claims: PodClaim, renew: bool = True, container: str = "c") -> PrepareClaims:
    """A pod with one container that names all its claims."""
    references = tuple(ClaimReference(container=container, entry=item.entry) for item in claims)
    return PrepareClaims(uid=uid, namespace="ns", name=uid, claims=claims, references=references, renew=renew)


@asynccontextmanager
async def running_lab(**limits: float) -> AsyncIterator["DraLab"]:
    lab = DraLab(**limits)
    try:
        async with asyncio.timeout(100):
            await lab.open()
            yield lab
    finally:
        await lab.close()


class DraLab:
    def __init__(self, **limits: float) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.limits = DraLimits(**{"reconnect_wait": 0.0, "reopen": 0.1, "retry_first": 0.1, **limits})
        self.listen = True
        """The gate ResourceHealthStatus."""
        self.drivers: list[StubDriver] = []
        self.told: list[tuple[str, str]] = []
        self.shown: dict[str, PodClaims] = {}
        self.forced = HealthOverrides()
        self.disk_full = False
        self._forget()
        self.history: list[tuple[str, str, str]] = []
        """Device, health and message of every change."""

    def _forget(self) -> None:
        """A life begins: what an earlier one told is no answer."""
        self.health = Replica[DeviceHealth](self._note_health)
        self.registered = Replica[DraDriver]()

    @property
    def checkpoint(self) -> Path:
        return self.root / "dra_manager_state"

    async def open(self) -> None:
        self._forget()
        run = self.root / "run"
        run.mkdir(mode=0o700, exist_ok=True)
        log = logging.getLogger("devices")
        self.registry = CollectorRegistry()
        self.bus = Bus(BusOptions(name="devices", run_dir=run))
        await self.bus.start()
        options = DraOptions(
            checkpoint=self.checkpoint,
            health_state=self.root / "dra_health_state",
            bus=self.bus,
            registry=self.registry,
            log=log,
            limits=self.limits,
            follow_health=self.listen,
            publish_claims=self._show,
            allocations=self._allocations,
            report_problem=self._tell,
            overrides=self.forced,
            wait_written=self._remembered,
        )
        self.manager = DraManager(options)
        handlers = {DRA_PLUGIN: self.manager.drivers}
        watcher = PluginWatcher(WatcherOptions(self.root / "plugins_registry", handlers, self.registry, log))
        self._watching = [asyncio.create_task(watcher.run()), asyncio.create_task(self.manager.run())]
        self.peer = Bus(BusOptions(name="", run_dir=run))
        await self.peer.start()
        follow = self.peer.follow
        follow(owner="devices", stream=messages.DRA_HEALTH, sink=self.health, type=DeviceHealth)
        follow(owner="devices", stream=messages.DRA_DRIVERS, sink=self.registered, type=DraDriver)
        await until("synced", lambda: self.health.synced and self.registered.synced)

    async def end_life(self) -> None:
        """Of the manager; drivers and files stay."""
        for task in self._watching:
            task.cancel()
        for task in self._watching:
            with suppress(asyncio.CancelledError):
                await task
        await self.manager.close()
        await self.peer.close()
        await self.bus.close()

    async def close(self) -> None:
        await asyncio.gather(*(driver.stop() for driver in self.drivers))
        await self.end_life()
        shutil.rmtree(self.root)

    async def _show(self, uid: str, claims: PodClaims) -> None:
        self.shown[uid] = claims

    def _allocations(self) -> list[PodAllocation]:
        """As the ledger keeps them."""
        return [
            PodAllocation(
                uid=uid,
                namespace="ns",
                name=uid,
                containers=tuple(ContainerAllocation(name, claims=held) for name, held in claims.containers.items()),
                claims=claims.unreferenced,
            )
            for uid, claims in self.shown.items()
        ]

    def _tell(self, reason: str, line: str) -> None:
        self.told.append((reason, line))

    def _note_health(self, op: Any, key: str, new: DeviceHealth | None, old: DeviceHealth | None) -> None:
        self.history.append((key, new.health, new.message) if new else (key, "", ""))

    def stub(self, name: str = GPU, instance: str = "") -> StubDriver:
        self.drivers.append(StubDriver(self.root, name, instance))
        return self.drivers[-1]

    async def driver(self, name: str = GPU, instance: str = "", **info: Any) -> StubDriver:
        """Registered and connected."""
        driver = self.stub(name, instance)
        driver.info.supported_versions.extend(info.get("also", ()))
        await driver.start()
        await self.settled(driver)
        return driver

    async def settled(self, driver: StubDriver) -> None:
        """It is connected, and has heard so: from now on nothing of its registration is under way."""
        await self.connected(driver.name, str(driver.socket))
        await until("told so", lambda: driver.told and driver.told[-1].plugin_registered)

    async def connected(self, name: str, endpoint: str = "") -> None:
        def holds() -> bool:
            known = self.registered.items.get(name)
            return known is not None and known.connected and (not endpoint or endpoint in known.endpoints)

        await until(f"{name} connected", holds)

    async def prepare(self, asked: PrepareClaims) -> PreparedClaims:
        return await self.manager.prepare(asked, None)  # type: ignore[arg-type]  # who calls does not matter

    async def unprepare(self, uid: str) -> None:
        await self.manager.unprepare(UnprepareClaims(uid), None)  # type: ignore[arg-type]  # who calls does not matter

    async def chaos(self, device: str, health: str) -> None:
        await self.manager.chaos(ChaosDevice("", device, health), None)  # type: ignore[arg-type]  # who calls does not matter

    async def _remembered(self) -> None:
        if self.disk_full:
            raise CheckpointNotWritten("no space")

    async def says(self, device: str, health: str, message: str | None = None, timeout: float = 60.0) -> None:
        """Wait until the stream shows this of a device, `DRIVER/POOL/DEVICE`."""

        def holds() -> bool:
            known = self.health.items.get(device)
            return known is not None and known.health == health and message in (None, known.message)

        await until(f"{device} {health}; is {self.health.items.get(device)}", holds, timeout)

    def metrics(self) -> str:
        return generate_latest(self.registry).decode()
