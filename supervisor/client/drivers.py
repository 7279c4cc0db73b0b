"""The DRA drivers of a running plane and the devices of prepared claims, with the reason of an Unknown health."""

import msgspec

from protocols.bus import Replica
from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth, DraDriver, PodAllocation, PreparedClaim
from supervisor.client.connection import Asking, devices_known

CONNECTED, SILENT, GONE = "connected", "silent", "gone"


class DriverRow(msgspec.Struct, frozen=True):
    driver: DraDriver
    claims: int
    """Number of its prepared claims that pods use."""


class ClaimDeviceRow(msgspec.Struct, frozen=True):
    device: str
    """DRIVER/POOL/DEVICE"""
    health: str
    message: str
    claim: str
    pods: tuple[str, ...]
    shares: tuple[str, ...] = ()
    """Ids of the claim's shares of the device; empty = it has the whole device."""


class DriversView(msgspec.Struct, frozen=True):
    drivers: tuple[DriverRow, ...]
    devices: tuple[ClaimDeviceRow, ...]


async def drivers_view(asking: Asking) -> DriversView:
    drivers, health, pods = Replica[DraDriver](), Replica[DeviceHealth](), Replica[PodAllocation]()
    follow, owner = asking.bus.follow, messages.OWNER
    following = (
        follow(owner=owner, stream=messages.DRA_DRIVERS, sink=drivers, type=DraDriver),
        follow(owner=owner, stream=messages.DRA_HEALTH, sink=health, type=DeviceHealth),
        follow(owner=owner, stream=messages.ALLOCATIONS, sink=pods, type=PodAllocation),
    )
    await devices_known(following)
    return drivers_view_of(drivers.items, health.items, pods.items)


def drivers_view_of(
    drivers: dict[str, DraDriver], health: dict[str, DeviceHealth], pods: dict[str, PodAllocation]
) -> DriversView:
    """Return drivers by name, and devices by claim."""
    users: dict[tuple[str, str], set[str]] = {}
    shares: dict[tuple[str, str], set[str]] = {}
    claims: dict[str, set[str]] = {}
    for pod in pods.values():
        for held in _claims(pod):
            for device in held.devices:
                name = f"{device.driver}/{device.pool}/{device.device}"
                place = (f"{held.namespace}/{held.name}", name)
                users.setdefault(place, set()).add(f"{pod.namespace}/{pod.name}")
                shares.setdefault(place, set()).update(filter(None, (device.share_id,)))
                claims.setdefault(device.driver, set()).add(held.uid)
    return DriversView(
        drivers=tuple(DriverRow(drivers[name], len(claims.get(name, ()))) for name in sorted(drivers)),
        devices=tuple(
            msgspec.structs.replace(
                _device_row(health.get(name), drivers.get(name.partition("/")[0]), name, claim, found),
                shares=tuple(sorted(shares[claim, name])),
            )
            for (claim, name), found in sorted(users.items())
        ),
    )


def _claims(pod: PodAllocation) -> list[PreparedClaim]:
    return [*(claim for container in pod.containers for claim in container.claims), *pod.claims]


def _device_row(
    state: DeviceHealth | None, driver: DraDriver | None, name: str, claim: str, pods: set[str]
) -> ClaimDeviceRow:
    health = state.health if state else messages.UNKNOWN
    message = state.message if state else ""
    if health == messages.UNKNOWN and not message:
        message = why_unknown(driver)
    return ClaimDeviceRow(name, health, message, claim, tuple(sorted(pods)))


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
    if driver.connected:
        return CONNECTED
    return SILENT if driver.endpoints else GONE
