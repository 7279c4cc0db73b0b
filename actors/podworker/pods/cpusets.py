"""Set the CPUs of running containers: exclusive ones as granted, the shared pool for all others.

Level-triggered: every running container is compared with its desired CPU set. With the CPU manager's policy none
nothing is pinned and this task sleeps.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

import msgspec

from actors.podworker.model.dependencies import PodEventRecorder, Runtime
from protocols.bus import BusError, NotFound
from protocols.lifecycle.pods.types import PodSpec
from protocols.messages.devices import ContainerGrant, Placement
from protocols.node.cpulist import format_list, parse_list

RETRY_S = 10.0
SETTLE_S = 0.02
"""Pause after a wake-up, so that simultaneous changes are handled together."""
log = logging.getLogger("podworker")


class AdmittedContainer(msgspec.Struct, frozen=True):
    """A running container and the CPUs that it was granted."""

    id: str
    name: str
    spec: PodSpec
    grant: ContainerGrant


class CpusetOptions(msgspec.Struct, frozen=True):
    """The containers to update, and the pools that the device manager publishes."""

    runtime: Runtime
    recorder: PodEventRecorder
    running: Callable[[], Iterator[AdmittedContainer]]
    placement: Callable[[], Placement | None]
    """None until the device manager has reported."""


class Cpusets:
    """Writes CPU sets that differ from what was written last."""

    def __init__(self, options: CpusetOptions) -> None:
        self._options = options
        self._wake = asyncio.Event()
        self._written: dict[str, str] = {}
        self._offline: dict[str, str] = {}

    def wake(self) -> None:
        """Reconcile soon: a container started, or the shared pool changed."""
        if self._pins:
            self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_S)
            self._wake.clear()
            if not await self.reconcile():
                asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    async def reconcile(self) -> bool:
        """Set the CPUs of all running containers. Returns False if one failed and is to be retried."""
        placement = self._options.placement()
        if placement is None or not placement.shared:
            return True
        online, containers, good = parse_list(placement.online), list(self._options.running()), True
        shared = format_list(parse_list(placement.shared) & online)
        for known in (self._written, self._offline):
            for gone in known.keys() - {held.id for held in containers}:
                del known[gone]
        for held in containers:
            self._warn(held, online)
            desired = format_list(parse_list(held.grant.cpus) & online) if held.grant.cpus else shared
            if desired and self._written.get(held.id) != desired:
                good = await self._move(held, desired) and good
        return good

    @property
    def _pins(self) -> bool:
        placement = self._options.placement()
        return placement is not None and bool(placement.shared)

    async def _move(self, held: AdmittedContainer, cpus: str) -> bool:
        try:
            await self._options.runtime.set_cpus(held.id, cpus)
        except NotFound:
            return True  # it is gone
        except BusError as error:
            log.warning("CPUs not set container=%s pod=%s/%s cpus=%s error=%s", held.name, *_names(held), cpus, error)
            return False
        self._written[held.id] = cpus
        return True

    def _warn(self, held: AdmittedContainer, online: frozenset[int]) -> None:
        """Record lost CPUs once per loss. Exclusive CPUs that are offline stay exclusive."""
        lost = format_list(parse_list(held.grant.cpus) - online)
        if lost and self._offline.get(held.id) != lost:
            container = next((c for c in held.spec.containers if c.name == held.name), None)
            text = f"CPUs {lost} of container {held.name} are offline"
            self._options.recorder.pod(held.spec, "Warning", "CPUOffline", text, container)
        if lost:
            self._offline[held.id] = lost
        else:
            self._offline.pop(held.id, None)


def _names(held: AdmittedContainer) -> tuple[str, str]:
    return held.spec.namespace, held.spec.name
