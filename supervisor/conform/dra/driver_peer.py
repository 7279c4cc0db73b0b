"""kubelet's side of a DRA driver: prepare and unprepare claims, and follow the health of devices."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.message import Message

from protocols.wire.plugins import PREPARE, UNPREPARE, WATCH_RESOURCES
from supervisor.conform.async_api import Object
from supervisor.conform.caller import CallStream, ServicePeer
from supervisor.conform.cdi import declared
from supervisor.conform.dra.objects import REQUEST, DraObjects, DriverClaim, Offered, Reference
from supervisor.conform.dra.pools import Pool, pools_of, usable
from supervisor.conform.exchange import Exchange, ExchangeRecorder
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

SAMPLE = 8
"""Devices that are allocated to see what an answer looks like."""
Health: TypeAlias = CallStream[Any]
Key: TypeAlias = tuple[str, str]
"""Pool and name of a device."""


class DriverPeer(ServicePeer):
    """One connection to one instance of a driver, as kubelet has one for all calls."""

    def __init__(
        self,
        name: str,
        socket: Path,
        recorder: ExchangeRecorder,
        timeout: float,
        objects: DraObjects,
        cdi: Sequence[Path],
        services: Sequence[str],
    ) -> None:
        super().__init__(name, socket, recorder, timeout)
        self.objects, self.cdi = objects, cdi
        self.services = list(services)
        """As GetInfo names them, in the driver's order."""
        self.pools: list[Pool] = []
        """The newest that were read."""
        self.health: Health | None = None
        """The stream that kubelet opens at the registration, and again while nobody serves."""

    @property
    def versions(self) -> list[str]:
        """The services to prepare claims by; kubelet uses the first."""
        return [name for name in self.services if name in PREPARE]

    @property
    def health_versions(self) -> list[str]:
        return [name for name in WATCH_RESOURCES if name in self.services]

    def evidence(self) -> Sequence[Exchange | None]:
        return [self.health.first if self.health else None]

    def another(self) -> "DriverPeer":
        """Return another connection to the same instance; the caller closes it."""
        return DriverPeer(self.name, self.socket, self.recorder, self.timeout, self.objects, self.cdi, self.services)

    # devices

    async def published(self) -> list[Pool]:
        """Read the slices anew."""
        self.pools = pools_of(await self.objects.slices(self.name))
        return self.pools

    def offered(self, count: int = 1) -> list[Offered]:
        """Return devices that one claim may have together. Raises NotApplicable if there are fewer than `count`."""
        devices = list(usable(self.pools, self.objects.node))
        if len(devices) < count:
            raise NotApplicable(f"it needs {count} devices without taints, the driver offers {len(devices)}")
        return devices

    @asynccontextmanager
    async def claim(
        self, devices: Sequence[Offered], request: str = REQUEST, reserved: Sequence[Reference] | None = None
    ) -> AsyncIterator[DriverClaim]:
        """Allocate a claim to the devices; at the end it is unprepared and deleted."""
        claim = await self.objects.create_claim([device.result(request) for device in devices], reserved=reserved)
        try:
            yield claim
        finally:
            await self.drop(claim)

    async def drop(self, claim: DriverClaim) -> None:
        """Unprepare, whatever that answers, and delete."""
        with suppress(CallFailed, NotApplicable):
            await self.unprepare(claim)
        await self.objects.delete_claim(claim.name)

    def declared(self) -> set[str]:
        """Return the CDI devices that files declare; files that cannot be read declare none."""
        return declared(self.cdi).names

    # calls

    async def probe(self) -> None:
        await self.prepare()

    async def prepare(self, *claims: DriverClaim, version: str = "") -> Mapping[str, Any]:
        """Return the answer for each uid. Raises CallFailed."""
        method = PREPARE[version or self.versions[0]]
        return dict((await self.call(method, _request(method.request, claims))).claims)

    async def prepared(self, claim: DriverClaim, version: str = "") -> list[Any]:
        """Prepare one claim; return its devices by pool and name. Raises Failed."""
        return answer_of(claim, await self.prepare(claim, version=version))

    async def cdi_of(self, claim: DriverClaim) -> set[str]:
        """Prepare one claim; return the CDI ids of its devices. Raises Failed, NotApplicable if there are none."""
        ids = {id for device in await self.prepared(claim) for id in device.cdi_device_ids}
        if not ids:
            raise NotApplicable("the answer has no CDI devices")
        return ids

    async def undeclared(self, ids: set[str]) -> set[str]:
        """Return those of the CDI ids that no file declares."""
        return ids - await asyncio.to_thread(self.declared)

    async def why_undeclared(self, id: str, when: str) -> str:
        """Return the sentence for a CDI device that a runtime does not have."""
        conflict = (await asyncio.to_thread(declared, self.cdi)).conflict(id)
        return f"{when} {conflict or f'no file declares {id}'}"

    async def unprepare(self, *claims: DriverClaim, version: str = "") -> Mapping[str, Any]:
        """Return the answer for each uid. Raises CallFailed."""
        method = UNPREPARE[version or self.versions[0]]
        return dict((await self.call(method, _request(method.request, claims))).claims)

    async def unprepared(self, claim: DriverClaim) -> None:
        """Raises Failed."""
        answers = await self.unprepare(claim)
        if claim.uid not in answers:
            raise Failed(f"NodeUnprepareResources has no answer for claim {claim.name}")
        if error := answers[claim.uid].error:
            raise Failed(f"claim {claim.name} was not unprepared: {error}")

    def watch(self, version: str = "") -> Health:
        """Open a health stream. Raises NotApplicable if the driver names none."""
        if not self.health_versions:
            raise NotApplicable("GetInfo names no health service")
        return CallStream(self, WATCH_RESOURCES[version or self.health_versions[0]])

    def open_health(self) -> None:
        """Watch the health of devices as kubelet does, if the driver names a service of it."""
        if self.health is None and self.health_versions and not self.is_closed():
            self.health = self.watch()

    async def first_health(self, stream: Health) -> list[Any]:
        """Wait for a report. Raises Failed."""
        await stream.until(lambda stream: bool(stream.newest or stream.ended), self.timeout)
        if stream.newest is None:
            what = f"ended: {stream.ended}" if stream.ended else f"was open for {self.timeout:g} s"
            raise Failed(f"NodeWatchResources {what}, without a report")
        return list(stream.newest.devices)

    async def close(self) -> None:
        if self.health:
            await self.health.close()
        await super().close()


def _request(kind: type[Message], claims: Sequence[DriverClaim]) -> Message:
    return kind(claims=[claim._asdict() for claim in claims])


def answer_of(claim: DriverClaim, answers: Mapping[str, Any]) -> list[Any]:
    """Return the devices of a claim by pool and name. Raises Failed."""
    if claim.uid not in answers:
        others = f", but for {min(answers)}" if answers else ""
        raise Failed(f"NodePrepareResources has no answer for claim {claim.name} with uid {claim.uid}{others}")
    if error := answers[claim.uid].error:
        raise Failed(f"claim {claim.name} was not prepared: {error}")
    return sorted(answers[claim.uid].devices, key=key_of)


def key_of(device: Any) -> Key:
    """Return pool and name of a device of an answer."""
    return device.pool_name, device.device_name


def keys(devices: Sequence[Offered]) -> list[Key]:
    """Return pools and names of devices, sorted, to compare with an answer."""
    return sorted((device.pool, device.name) for device in devices)


def contents(devices: Sequence[Any]) -> list[Object]:
    """Return what an answer says of devices, without the order of lists."""
    return [
        {
            "device": key_of(device),
            "requests": sorted(device.request_names),
            "cdi": sorted(device.cdi_device_ids),
        }
        for device in sorted(devices, key=key_of)
    ]
