"""Dynamic resource allocation on this node: wires claims, drivers and health, and serves the requests."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from actors.devices.calls.log import CallLog
from actors.devices.dra.claim_cache import ClaimCache, cdi_devices, reconstruct_claims, required_drivers
from actors.devices.dra.claim_checkpoint import ClaimFile, ClaimWriter, ClaimWriterOptions
from actors.devices.dra.claim_preparer import ClaimPreparer, ClaimPreparerOptions, OrphanCleaner, OrphanCleanerOptions
from actors.devices.dra.driver_registry import (
    DriverRegistry,
    DriverRegistryOptions,
    HealthMonitor,
    HealthMonitorOptions,
)
from actors.devices.dra.health import HealthCache, HealthOverrides, parse_device_name, parse_health
from actors.devices.dra.health_file import HealthFile, HealthFileOptions
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.streams import DraStreams, DraStreamsOptions, FinishedPodDevices
from actors.devices.dra.types import DraLimits
from actors.devices.model.errors import CheckpointNotWritten
from protocols.bus import Bus, Call
from protocols.lifecycle.devices.claims import PodClaims, pod_claims
from protocols.lifecycle.devices.types import ClaimInfo, DeviceName
from protocols.lifecycle.errors import UnknownDevice
from protocols.messages.devices import (
    ChaosDevice,
    Empty,
    PodAllocation,
    PrepareClaims,
    PreparedClaims,
    UnprepareClaims,
)


async def _nothing_to_write() -> None:
    """Do nothing: the default for tests without a checkpoint."""


class DraOptions(msgspec.Struct, frozen=True):
    """Files and limits of the DRA manager."""

    checkpoint: Path
    health_state: Path
    bus: Bus
    registry: CollectorRegistry
    log: logging.Logger
    limits: DraLimits
    follow_health: bool
    """Whether to follow the health streams of drivers."""
    publish_claims: Callable[[str, PodClaims], Awaitable[None]]
    """Publishes the claims in the pod's allocation."""
    allocations: Callable[[], list[PodAllocation]]
    """Returns the allocations of all pods."""
    report_problem: Callable[[str, str], None]
    """Reports a reason and a message to users."""
    overrides: HealthOverrides = msgspec.field(default_factory=HealthOverrides)
    """Stored by the device manager, changed only here."""
    wait_written: Callable[[], Awaitable[None]] = _nothing_to_write
    """Returns once `overrides` is on disk; raises CheckpointNotWritten."""
    calls: CallLog = msgspec.field(default_factory=CallLog)


class DraManager:
    """Built synchronously, so that its streams never show a half-loaded state."""

    def __init__(self, options: DraOptions) -> None:
        self._options = options
        file = ClaimFile(options.checkpoint)
        self.warnings: list[str] = []
        self._cache = ClaimCache(self._load(file))
        self._health_cache = HealthCache(options.limits.health, options.overrides)
        metrics = DraMetrics(options.registry, self._cache.in_use)
        clock = asyncio.get_running_loop().time
        self._finished_pod_devices = FinishedPodDevices(options.bus, lambda: self._streams.update_devices())
        self._health_file = HealthFile(
            HealthFileOptions(
                path=options.health_state,
                health_cache=self._health_cache,
                names=self._devices,
                clock=clock,
                timeout=options.limits.health,
                reconnect_wait=options.limits.reconnect_wait,
                log=options.log,
            )
        )
        self._health_file.load()
        self._streams = DraStreams(
            DraStreamsOptions(options.bus, self._health_cache, self._devices, clock, self._health_file.reported)
        )
        monitor = HealthMonitor(
            HealthMonitorOptions(
                self._health_cache, clock, self._streams.refresh, metrics, options.log, options.limits.reopen
            )
        )
        self.drivers = DriverRegistry(
            DriverRegistryOptions(
                monitor,
                options.limits,
                metrics,
                self._streams.driver,
                options.log,
                options.follow_health,
                options.calls,
            )
        )
        self._writer = ClaimWriter(
            ClaimWriterOptions(
                claims=lambda: list(self._cache.claims.values()),
                save=file.save,
                log=lambda line: options.log.error("%s", line),
            )
        )
        self._preparer = ClaimPreparer(ClaimPreparerOptions(self._cache, self.drivers, self._writer, metrics))
        self._orphan_cleaner = OrphanCleaner(
            OrphanCleanerOptions(self._cache.pods, self._unprepare_pod, options.limits, options.log)
        )

    def _load(self, file: ClaimFile) -> list[ClaimInfo]:
        """Load the claims. Without a file reconstruct them from allocations, so that drivers unprepare them later."""
        claims, warning = file.load()
        if claims is not None:
            return claims
        claims = reconstruct_claims(self._options.allocations())
        if warning or claims:
            line = f"{warning or f'claim state {file.path} is gone'}; {len(claims)} claims are known from their pods"
            self.warnings.append(line)
            self._options.report_problem("ClaimCheckpoint", line)
        return claims

    def _devices(self) -> set[DeviceName]:
        """Return the devices whose health is published."""
        return self._cache.devices() | self._finished_pod_devices.names()

    async def run(self) -> None:
        """Publish and persist health, forever."""
        self._streams.update_devices()
        await self._health_file.run()

    async def prepare(self, request: PrepareClaims, call: Call) -> PreparedClaims:
        self._orphan_cleaner.requested(request.uid)
        for driver in required_drivers(request.claims):
            await self.drivers.wait_registered(driver)
        try:
            claims = await self._preparer.prepare(request)
        finally:
            self._streams.update_devices()
        mine = pod_claims(request, claims)
        await self._options.publish_claims(request.uid, mine)
        return PreparedClaims(cdi_devices={name: cdi_devices(held) for name, held in mine.containers.items()})

    async def unprepare(self, request: UnprepareClaims, call: Call) -> Empty:
        await self._unprepare_pod(request.uid)
        self._orphan_cleaner.ended(request.uid)
        return Empty()

    def reconcile(self, active: set[str]) -> None:
        """Unprepare the claims of every pod that is not in `active`, in the background."""
        self._orphan_cleaner.reconcile(active)

    async def chaos(self, order: ChaosDevice, call: Call) -> Empty:
        """Override a device's health.

        Raises:
            UnknownDevice: No claim and no driver on this node has the device.
            InvalidHealth: The health does not exist.
            CheckpointNotWritten: The override is not durable, and was taken back.
        """
        name, health = parse_device_name(order.id), parse_health(order.health)
        if health is not None and name not in self._devices() and self._health_cache.report(name) is None:
            raise UnknownDevice(
                f"{name.text} is unknown: no claim on this node has it, and no driver reports its health; "
                "see `nodeplane devices --drivers`"
            )
        before = self._options.overrides.set(name, health)
        self._streams.refresh(name.driver)
        try:
            await self._options.wait_written()
        except CheckpointNotWritten:
            self._options.overrides.set(name, before)
            self._streams.refresh(name.driver)
            raise
        return Empty()

    async def close(self) -> None:
        self._orphan_cleaner.close()
        self._streams.close()
        await self._preparer.close()
        await self.drivers.close()
        await self._writer.close()

    async def _unprepare_pod(self, uid: str) -> None:
        try:
            await self._preparer.unprepare(uid)
        finally:
            self._streams.update_devices()
