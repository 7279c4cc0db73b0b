"""`nodeplane devices --drivers`: the DRA drivers of the node, and every claim's devices with their health and pods."""

import argparse

import msgspec

from protocols.bus import Replica
from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth, DraDriver, PodAllocation, PreparedClaim
from supervisor.cli.ask import Asking, ask, devices_known
from supervisor.cli.flags import layout_from
from supervisor.cli.table import print_json, table

DRIVERS = ("DRIVER", "STATE", "SERVICE", "HEALTH SERVICE", "CLAIMS", "ENDPOINTS")
DEVICES = ("DEVICE", "HEALTH", "CLAIM", "PODS", "WHY")


class DriverRow(msgspec.Struct, frozen=True):
    driver: DraDriver
    claims: int
    """Prepared by it and in use."""


class DeviceRow(msgspec.Struct, frozen=True):
    device: str
    """DRIVER/POOL/DEVICE"""
    health: str
    message: str
    claim: str
    pods: tuple[str, ...]


class View(msgspec.Struct, frozen=True):
    drivers: tuple[DriverRow, ...]
    devices: tuple[DeviceRow, ...]


def run_drivers(args: argparse.Namespace) -> int:
    view = ask(layout_from(args), gather)
    if args.output == "json":
        print_json(view)
    elif view.drivers or view.devices:
        print("\n\n".join(texts(view)))
    else:
        print("no DRA driver has registered yet; try `nodeplane dra-driver --driver gpu.example.com --devices 8`")
    return 0


async def gather(asking: Asking) -> View:
    drivers, health, pods = Replica[DraDriver](), Replica[DeviceHealth](), Replica[PodAllocation]()
    follow, owner = asking.bus.follow, messages.OWNER
    following = (
        follow(owner=owner, stream=messages.DRA_DRIVERS, sink=drivers, type=DraDriver),
        follow(owner=owner, stream=messages.DRA_HEALTH, sink=health, type=DeviceHealth),
        follow(owner=owner, stream=messages.ALLOCATIONS, sink=pods, type=PodAllocation),
    )
    await devices_known(following)
    return view_of(drivers.items, health.items, pods.items)


def view_of(drivers: dict[str, DraDriver], health: dict[str, DeviceHealth], pods: dict[str, PodAllocation]) -> View:
    """Drivers by name, devices by claim."""
    users: dict[tuple[str, str], set[str]] = {}
    claims: dict[str, set[str]] = {}
    for pod in pods.values():
        for held in _claims(pod):
            for device in held.devices:
                name = f"{device.driver}/{device.pool}/{device.device}"
                users.setdefault((f"{held.namespace}/{held.name}", name), set()).add(f"{pod.namespace}/{pod.name}")
                claims.setdefault(device.driver, set()).add(held.uid)
    unheard = DeviceHealth(resource="", id="", health=messages.UNKNOWN)
    return View(
        drivers=tuple(DriverRow(drivers[name], len(claims.get(name, ()))) for name in sorted(drivers)),
        devices=tuple(
            DeviceRow(name, (state := health.get(name, unheard)).health, state.message, claim, tuple(sorted(found)))
            for (claim, name), found in sorted(users.items())
        ),
    )


def _claims(pod: PodAllocation) -> list[PreparedClaim]:
    return [*(claim for container in pod.containers for claim in container.claims), *pod.claims]


def texts(view: View) -> list[str]:
    """The tables that have rows."""
    found = []
    if view.drivers:
        found.append(table(DRIVERS, [_driver(row) for row in view.drivers]))
    if view.devices:
        cells = [(row.device, row.health, row.claim, ",".join(row.pods), row.message) for row in view.devices]
        found.append(table(DEVICES, cells))
    return found


def _driver(row: DriverRow) -> tuple[str, ...]:
    driver = row.driver
    state = "connected" if driver.connected else "silent" if driver.endpoints else "gone"
    endpoints = ",".join(driver.endpoints) or "-"
    return driver.name, state, driver.version or "-", driver.health or "-", str(row.claims), endpoints
