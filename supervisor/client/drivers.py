"""The DRA drivers of a running plane and the devices of prepared claims, with the reason of an Unknown health."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

import msgspec

from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth, DraDriver, PodAllocation, PreparedClaim
from supervisor.client.connection import Asking, held

CONNECTED, SILENT, GONE = "connected", "silent", "gone"


class DriverRow(msgspec.Struct, frozen=True):
    """A driver and the claims that are prepared with it."""

    driver: DraDriver
    claims: int
    """Number of its prepared claims that pods use."""


class ClaimDeviceRow(msgspec.Struct, frozen=True):
    """A device of a prepared claim, with all pods that use the claim."""

    device: str
    """DRIVER/POOL/DEVICE"""
    health: str
    message: str
    claim: str
    pods: tuple[str, ...]
    shares: tuple[str, ...] = ()
    """Ids of the claim's shares of the device; empty = it has the whole device."""


@dataclass
class _Users:
    """The pods that use a device of a claim, and the ids of the claim's shares of it."""

    pods: set[str] = field(default_factory=set)
    shares: set[str] = field(default_factory=set)


class DriversView(msgspec.Struct, frozen=True):
    """Drivers of a node, and the devices that pods use."""

    drivers: tuple[DriverRow, ...]
    devices: tuple[ClaimDeviceRow, ...]


async def drivers_view(asking: Asking) -> DriversView:
    """Return the drivers of a node, from the streams of its device manager."""
    drivers, health, pods = await asyncio.gather(
        held(asking.bus, messages.DRA_DRIVERS, DraDriver),
        held(asking.bus, messages.DRA_HEALTH, DeviceHealth),
        held(asking.bus, messages.ALLOCATIONS, PodAllocation),
    )
    return drivers_view_of(drivers, health, pods)


def drivers_view_of(
    drivers: dict[str, DraDriver], health: dict[str, DeviceHealth], pods: dict[str, PodAllocation]
) -> DriversView:
    """Return drivers by name, and devices by claim."""
    used: defaultdict[tuple[str, str], _Users] = defaultdict(_Users)
    claims: defaultdict[str, set[str]] = defaultdict(set)
    for pod in pods.values():
        for claim in claims_of(pod):
            for device in claim.devices:
                claims[device.driver].add(claim.uid)
                users = used[f"{claim.namespace}/{claim.name}", device.id]
                users.pods.add(f"{pod.namespace}/{pod.name}")
                users.shares |= {device.share_id} - {""}
    return DriversView(
        drivers=tuple(DriverRow(drivers[name], len(claims[name])) for name in sorted(drivers)),
        devices=tuple(
            _device_row(claim, device, used[claim, device], health.get(device), drivers.get(device.partition("/")[0]))
            for claim, device in sorted(used)
        ),
    )


def claims_of(pod: PodAllocation) -> list[PreparedClaim]:
    """Return the claims of all containers, then those that no container names."""
    return [*(claim for container in pod.containers for claim in container.claims), *pod.claims]


def _device_row(
    claim: str, device: str, users: _Users, state: DeviceHealth | None, driver: DraDriver | None
) -> ClaimDeviceRow:
    health = state.health if state else messages.UNKNOWN
    message = state.message if state else ""
    if health == messages.UNKNOWN and not message:
        message = why_unknown(driver)
    return ClaimDeviceRow(device, health, message, claim, tuple(sorted(users.pods)), tuple(sorted(users.shares)))


def why_unknown(driver: DraDriver | None) -> str:
    """Return why a device is Unknown of which neither a driver's message nor an override says so."""
    if driver is None:
        return "its driver has not registered since the device manager started"
    if (state := driver_state(driver)) != CONNECTED:
        return "its driver is registered and does not answer" if state == SILENT else "its driver is gone"
    if not driver.health:
        return "its driver serves no health service, or feature gate ResourceHealthStatus is off"
    return "its driver reports no health of it, reports Unknown, or let its report expire"


def driver_state(driver: DraDriver) -> str:
    """Return whether a driver answers, is registered without an answer, or is gone."""
    if driver.connected:
        return CONNECTED
    return SILENT if driver.endpoints else GONE
