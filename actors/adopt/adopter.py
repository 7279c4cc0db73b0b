"""Asks kubelet, compares, and tells: one question at a time, whenever the schedule says."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from actors.adopt import sandboxes
from actors.adopt.diff import steps, target, torn
from actors.adopt.errors import AnswerTorn, KubeletBusy
from actors.adopt.identity import Identities, Name, Sandbox
from actors.adopt.kubelet import Kubelet
from actors.adopt.ledger import Ledger
from actors.adopt.metrics import AdoptMetrics
from actors.adopt.record import RecordFile
from actors.adopt.schedule import Schedule
from protocols.bus import Bus
from protocols.errors import NodeplaneError
from protocols.messages.devices import LedgerEvent, PodAllocation
from protocols.podresources import convert
from protocols.wire import podresources_v1_pb2 as v1


@dataclass(frozen=True)
class AdopterOptions:
    kubelet: Kubelet
    bus: Bus
    ledger: Ledger
    schedule: Schedule
    metrics: AdoptMetrics
    log: logging.Logger
    on_state: Callable[[bool, str], None]
    record: RecordFile


class Adopter:
    def __init__(self, options: AdopterOptions) -> None:
        self._options = options
        self._identities = Identities()
        self._wake = asyncio.Event()
        self._complaint = ""
        self._unwritten = ""

    def heard(self, sandbox: Sandbox | None) -> None:
        """The runtime told of a change."""
        if sandbox:
            self._identities.seen(sandbox)
        self._options.metrics.events.inc()
        self._options.schedule.event(time.monotonic())
        self._wake.set()

    def streaming(self, streaming: bool) -> None:
        """Whether the runtime tells of changes; on either turn something may have been missed."""
        self._options.schedule.streaming = streaming
        self._options.schedule.event(time.monotonic())
        self._wake.set()

    async def run(self) -> None:
        await self._restore()
        while True:
            await self._rest()
            asked = time.monotonic()
            well = await self._ask()
            self._options.schedule.asked(asked, well)

    async def _rest(self) -> None:
        """Until the schedule says; a change of it is looked at again."""
        while (pause := self._options.schedule.due() - time.monotonic()) > 0:
            self._wake.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def _ask(self) -> bool:
        result = "well"
        try:
            await self._compare()
            self._fares(True, "")
        except NodeplaneError as error:
            result = "busy" if isinstance(error, KubeletBusy) else "torn" if isinstance(error, AnswerTorn) else "failed"
            self._fares(result != "failed", str(error))
        self._options.metrics.lists.labels(result).inc()
        return result == "well"

    async def _restore(self) -> None:
        """What an earlier life told is where we begin, and the first look tells what differs by now."""
        record, complaint = await asyncio.to_thread(self._options.record.load)
        self._complain(complaint)
        if record:
            self._options.ledger.restore(record)

    async def _compare(self) -> None:
        """One whole look. Nothing is told of a look that failed half way."""
        kubelet, ledger = self._options.kubelet, self._options.ledger
        allocatable = await kubelet.allocatable()
        listed = await kubelet.list()
        pods = await self._identified(listed)
        if (twice := torn(pods.values())) is not None:
            raise AnswerTorn(f"kubelet's answer gives {' '.join(twice)} to two pods; it is asked again")
        wanted = target(ledger.pods, pods, self._alive())
        self._options.metrics.kept.set(len(wanted.keys() - pods.keys()))
        devices, machine = convert.allocatable(allocatable), convert.machine(allocatable)
        await self._tell(ledger.events(steps(ledger.pods, wanted)))
        if ledger.begun:
            ledger.allocatable(devices, machine)
        else:
            ledger.begin(devices, machine)

    async def _tell(self, events: list[LedgerEvent]) -> None:
        """On disk before anybody hears of it, and also when there is nothing yet: the position counts from then on."""
        ledger, record = self._options.ledger, self._options.record
        if events or not ledger.begun:
            self._complain(await asyncio.to_thread(record.save, ledger.record(events)))
            ledger.tell(events)

    async def _identified(self, listed: v1.ListPodResourcesResponse) -> dict[str, PodAllocation]:
        """What kubelet lists, by uid. The runtime is asked only where its events did not tell enough."""
        names = [(item.namespace, item.name) for item in listed.pod_resources]
        self._identities.listed(names)
        lacking = {(pod.namespace, pod.name) for pod in self._options.ledger.pods.values()} - set(names)
        if lacking or any(self._uid(name) is None for name in names) or not self._options.ledger.begun:
            self._identities.replace(await sandboxes.list_all(self._options.bus))
        if self._identities.waits:
            self._options.schedule.event(time.monotonic())
        pods = ((self._uid(name), item) for name, item in zip(names, listed.pod_resources, strict=True))
        return {uid: convert.pod(item, uid) for uid, item in pods if uid is not None}

    def _uid(self, name: Name) -> str | None:
        return self._identities.uid_of(name, time.monotonic())

    def _alive(self) -> list[str]:
        known = self._options.ledger.pods.items()
        return [uid for uid, pod in known if self._identities.alive(uid, (pod.namespace, pod.name))]

    def _fares(self, current: bool, message: str) -> None:
        self._options.metrics.current.set(current)
        self._options.on_state(current, message)
        if message and message != self._complaint:
            self._options.log.warning("%s", message)
        self._complaint = message

    def _complain(self, message: str) -> None:
        """Of the disk: once, until it takes something again."""
        if message and message != self._unwritten:
            self._options.log.warning("%s", message)
        self._unwritten = message
