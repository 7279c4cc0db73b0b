"""DRA put together: claims from their checkpoint, drivers from the watcher, and what each request does to them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from actors.devices.dra.claim_cache import ClaimCache, PodClaims, cdi_devices, pod_claims, rebuilt, wanted_drivers
from actors.devices.dra.claim_checkpoint import ClaimFile, Keeping, KeepingOptions
from actors.devices.dra.claim_preparer import Preparing, PreparingOptions, Strangers, StrangersOptions
from actors.devices.dra.driver_registry import Drivers, DriversOptions, Hearing, HearingOptions
from actors.devices.dra.health import Forced, HealthBook, forced_health, named
from actors.devices.dra.health_file import KeptHealth, KeptHealthOptions
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.streams import DraStreams, DraStreamsOptions, Remembered
from actors.devices.dra.types import ClaimInfo, DeviceName, DraLimits
from actors.devices.model.errors import CheckpointNotWritten, UnknownDevice
from protocols.bus import Bus, Call
from protocols.messages.devices import (
    ChaosDevice,
    Empty,
    PodAllocation,
    PrepareClaims,
    PreparedClaims,
    UnprepareClaims,
)


async def _at_once() -> None:
    """Nothing has to be written."""


@dataclass(frozen=True)
class DraOptions:
    checkpoint: Path
    health_state: Path
    bus: Bus
    registry: CollectorRegistry
    log: logging.Logger
    limits: DraLimits
    listen: bool
    """Whether drivers are asked for the health of their devices."""
    allocated: Callable[[str, PodClaims], Awaitable[None]]
    """The pod's allocation is to show these claims."""
    allocations: Callable[[], list[PodAllocation]]
    """What each pod is known to hold."""
    tell: Callable[[str, str], None]
    """Reason and line of what people should hear of."""
    forced: Forced = field(default_factory=Forced)
    """Kept by somebody else; changed here only."""
    remembered: Callable[[], Awaitable[None]] = _at_once
    """Returns when `forced` is on disk; raises CheckpointNotWritten."""


class DraManager:
    """Made in one go, so its streams never show a state half loaded."""

    def __init__(self, options: DraOptions) -> None:
        self._options = options
        file = ClaimFile(options.checkpoint)
        self.troubles: list[str] = []
        self._cache = ClaimCache(self._load(file))
        self._book = HealthBook(options.limits.health, options.forced)
        metrics = DraMetrics(options.registry, self._cache.in_use)
        clock = asyncio.get_running_loop().time
        self._remembered = Remembered(options.bus, lambda: self._streams.claims_changed())
        self._kept = KeptHealth(
            KeptHealthOptions(
                path=options.health_state,
                book=self._book,
                names=self._devices,
                clock=clock,
                timeout=options.limits.health,
                come_back=options.limits.come_back,
                log=options.log,
            )
        )
        self._kept.load()
        self._streams = DraStreams(DraStreamsOptions(options.bus, self._book, self._devices, clock, self._kept.said))
        hearing = Hearing(
            HearingOptions(self._book, clock, self._streams.refresh, metrics, options.log, options.limits.reopen)
        )
        self.drivers = Drivers(
            DriversOptions(hearing, options.limits, metrics, self._streams.driver, options.log, options.listen)
        )
        self._keeping = Keeping(
            KeepingOptions(
                claims=lambda: list(self._cache.claims.values()),
                save=file.save,
                log=lambda line: options.log.error("%s", line),
            )
        )
        self._preparing = Preparing(PreparingOptions(self._cache, self.drivers, self._keeping, metrics))
        self._strangers = Strangers(StrangersOptions(self._cache.pods, self._give_back, options.limits, options.log))

    def _load(self, file: ClaimFile) -> list[ClaimInfo]:
        """Without a file, from what pods are known to hold: no driver must be left with what nobody gives back."""
        claims, trouble = file.load()
        if claims is not None:
            return claims
        claims = rebuilt(self._options.allocations())
        if trouble or claims:
            line = f"{trouble or f'claim state {file.path} is gone'}; {len(claims)} claims are known from their pods"
            self.troubles.append(line)
            self._options.tell("ClaimCheckpoint", line)
        return claims

    def _devices(self) -> set[DeviceName]:
        """Those whose health somebody wants to know."""
        return self._cache.devices() | self._remembered.names()

    async def run(self) -> None:
        """What goes on beside requests; never ends."""
        self._streams.claims_changed()
        await self._kept.run()

    async def prepare(self, asked: PrepareClaims, call: Call) -> PreparedClaims:
        self._strangers.wanted(asked.uid)
        for driver in wanted_drivers(asked.claims):
            await self.drivers.returned(driver)
        try:
            claims = await self._preparing.prepare(asked)
        finally:
            self._streams.claims_changed()
        mine = pod_claims(asked, claims)
        await self._options.allocated(asked.uid, mine)
        return PreparedClaims(cdi_devices={name: cdi_devices(held) for name, held in mine.containers.items()})

    async def unprepare(self, asked: UnprepareClaims, call: Call) -> Empty:
        await self._give_back(asked.uid)
        self._strangers.ended(asked.uid)
        return Empty()

    def reconcile(self, active: set[str]) -> None:
        """Give back the claims of every pod that is not `active`, in the background."""
        self._strangers.reconcile(active)

    async def chaos(self, order: ChaosDevice, call: Call) -> Empty:
        """Force a device's health, whatever its driver says. Raises UnknownDevice, InvalidHealth, or
        CheckpointNotWritten: the device is as before then."""
        name, health = named(order.id), forced_health(order.health)
        if health is not None and name not in self._devices() and self._book.report(name) is None:
            raise UnknownDevice(
                f"{name.text} is not known here: no claim on this node has it, and no driver tells of its health; "
                "see `nodeplane devices --drivers`"
            )
        before = self._options.forced.put(name, health)
        self._streams.refresh(name.driver)
        try:
            await self._options.remembered()
        except CheckpointNotWritten:
            self._options.forced.put(name, before)
            self._streams.refresh(name.driver)
            raise
        return Empty()

    async def close(self) -> None:
        self._strangers.close()
        self._streams.close()
        await self.drivers.close()
        await self._keeping.close()

    async def _give_back(self, uid: str) -> None:
        try:
            await self._preparing.unprepare(uid)
        finally:
            self._streams.claims_changed()
