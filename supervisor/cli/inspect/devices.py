"""Devices and CPUs of the node, and their holders: `nodeplane devices` with its views, and `nodeplane cpus`."""

import argparse
import asyncio
import time

import msgspec

from protocols.kube.quantity import BINARY_SI, NANO, Quantity
from protocols.messages import devices as messages
from protocols.messages.devices import (
    HEALTHY,
    AllocatedMemory,
    Machine,
    Placement,
    PluginView,
    PodAllocation,
    ResourceInventory,
)
from protocols.node.cpulist import format_list, parse_list
from supervisor.base.terminal import Table, print_json, show
from supervisor.cli.flags import layout_from
from supervisor.client.connection import Asking, ask, held
from supervisor.client.devices import DeviceRow, device_rows
from supervisor.client.drivers import DriverRow, DriversView, driver_state, drivers_view

DEVICE_HEADER = ("RESOURCE", "DEVICE", "NUMA", "HEALTH", "POD", "CONTAINER", "WHY")
DRA_VIEW_FLAGS = ("shares", "patched", "published", "explain", "slices", "patches", "claim", "kubeconfig", "why")
"""Flags that ask for devices of ResourceSlices instead of the node's own."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("devices", help="list devices and who has them", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    of_plane = parser.add_mutually_exclusive_group()
    of_plane.add_argument("--plugins", action="store_true", help="resources and the plugins behind them")
    of_plane.add_argument("--drivers", action="store_true", help="DRA drivers, and the devices of claims")
    views = parser.add_argument_group("DRA devices")
    one = views.add_mutually_exclusive_group()
    one.add_argument("--patched", action="store_true", help="each value as the scheduler sees it, and who says so")
    one.add_argument("--published", action="store_true", help="each value as its driver publishes it")
    one.add_argument("--explain", metavar="DEVICE", help="one device: NAME or DRIVER/POOL/NAME")
    one.add_argument("--shares", action="store_true", help="shared devices: who consumes how much of their capacity")
    one.add_argument("--why", metavar="POD", help="why a pod waits, by nodes and devices: NAME or NAMESPACE/NAME")
    views.add_argument("--kubeconfig", metavar="FILE", help="of the API to ask (default ROOT/kubeconfig)")
    views.add_argument("--slices", metavar="FILE", action="append", help="read these instead of an API")
    views.add_argument("--patches", metavar="FILE", action="append", help="patches, rules and classes for --slices")
    views.add_argument("--claim", metavar="FILE", action="append", help="show what this claim would be given")
    views.add_argument("--feature-gates", metavar="NAME=BOOL,...", default="", help="as given to `up`")
    parser.set_defaults(run=_show_devices)
    cpus = subparsers.add_parser("cpus", help="list exclusive CPUs and memory", allow_abbrev=False)
    cpus.add_argument("-o", "--output", choices=("text", "json"), default="text")
    cpus.set_defaults(run=_show_cpus)


def _show_devices(args: argparse.Namespace) -> int:
    if any(getattr(args, name) for name in DRA_VIEW_FLAGS):
        from supervisor.cli.inspect.dra_devices import show_dra_devices  # loads the allocator and YAML

        return show_dra_devices(args)
    if args.plugins:
        return _show_plugins(args)
    if args.drivers:
        return _show_drivers(args)
    rows = ask(layout_from(args), device_rows)
    if args.output == "json":
        print_json(rows)
    elif rows:
        show(Table(DEVICE_HEADER, [_device_cells(row) for row in rows]))
    else:
        print("no device plugin has registered yet; try `nodeplane plugin --resource example.com/gpu --devices 4`")
    return 0


def _device_cells(row: DeviceRow) -> tuple[str, ...]:
    numa = ",".join(map(str, row.numa)) or "-"
    return row.resource, row.device, numa, row.health, row.pod or "-", ",".join(row.containers) or "-", row.message


RESOURCE_HEADER = ("RESOURCE", "CAPACITY", "ALLOCATABLE", "HELD", "PLUGIN", "STATE", "SINCE", "CALLS", "WHY")


class ResourceRow(msgspec.Struct, frozen=True):
    """One extended resource of the node; `held` devices belong to a pod."""

    resource: str
    capacity: int
    allocatable: int
    held: int
    plugins: tuple[PluginView, ...]
    """The plugin that serves comes first."""


def _show_plugins(args: argparse.Namespace) -> int:
    rows = ask(layout_from(args), resource_rows)
    if args.output == "json":
        print_json(rows)
    elif rows:
        now = time.time_ns()
        show(Table(RESOURCE_HEADER, [cells for row in rows for cells in resource_cells(row, now)]))
    else:
        print("no device plugin has registered yet; try `nodeplane plugin --resource example.com/gpu --devices 4`")
    return 0


async def resource_rows(asking: Asking) -> list[ResourceRow]:
    """Return the resources of a node, from the streams of its device manager."""
    inventory, plugins, pods = await asyncio.gather(
        held(asking.bus, messages.DEVICES, ResourceInventory),
        held(asking.bus, messages.PLUGINS, PluginView),
        held(asking.bus, messages.ALLOCATIONS, PodAllocation),
    )
    return resource_rows_of(inventory, plugins, pods)


def resource_rows_of(
    inventory: dict[str, ResourceInventory], plugins: dict[str, PluginView], pods: dict[str, PodAllocation]
) -> list[ResourceRow]:
    """Return a row per resource that the node has or had, sorted."""
    held = {(device.resource, device.id) for pod in pods.values() for c in pod.containers for device in c.devices}
    order = (messages.PLUGIN_SERVES, messages.PLUGIN_SILENT, messages.PLUGIN_REPLACED, messages.PLUGIN_GONE)
    views = sorted(plugins.values(), key=lambda view: (order.index(view.state), -view.since_ns))
    return [
        ResourceRow(
            resource=name,
            capacity=len(entry.devices),
            allocatable=sum(device.health == HEALTHY for device in entry.devices) if entry.connected else 0,
            held=sum(resource == name for resource, _ in held),
            plugins=tuple(view for view in views if view.resource == name),
        )
        for name, entry in sorted(inventory.items())
    ]


def resource_cells(row: ResourceRow, now_ns: int) -> list[tuple[str, ...]]:
    """Return the cells of one line per plugin; only the first line names the resource."""
    figures = (row.resource, str(row.capacity), str(row.allocatable), str(row.held))
    if not row.plugins:
        return [(*figures, "-", "not back yet", "-", "-", "")]
    first, *others = (_plugin_cells(view, now_ns) for view in row.plugins)
    return [(*figures, *first), *(("", "", "", "", *cells) for cells in others)]


def _plugin_cells(view: PluginView, now_ns: int) -> tuple[str, ...]:
    # CALLS: optional calls that the plugin asks the node to make
    optional = (("preferred", view.preferred), ("prestart", view.pre_start))
    calls = ",".join(name for name, wanted in optional if wanted) or "-"
    return view.socket, view.state, f"{max(0, now_ns - view.since_ns) // 10**9}s", calls, view.why


DRIVER_HEADER = ("DRIVER", "STATE", "SERVICE", "HEALTH SERVICE", "CLAIMS", "ENDPOINTS")
CLAIM_DEVICE_HEADER = ("DEVICE", "HEALTH", "CLAIM", "PODS", "WHY")


def _show_drivers(args: argparse.Namespace) -> int:
    view = ask(layout_from(args), drivers_view)
    if args.output == "json":
        print_json(view)
    elif view.drivers or view.devices:
        show(*_driver_tables(view))
    else:
        print("no DRA driver has registered yet; try `nodeplane dra-driver --driver gpu.example.com --devices 8`")
    return 0


def _driver_tables(view: DriversView) -> list[Table]:
    """Return the tables that have rows."""
    tables = []
    if view.drivers:
        tables.append(Table(DRIVER_HEADER, [_driver_cells(row) for row in view.drivers]))
    if view.devices:
        cells = [(row.device, row.health, row.claim, ",".join(row.pods), row.message) for row in view.devices]
        if not any(row.shares for row in view.devices):
            tables.append(Table(CLAIM_DEVICE_HEADER, cells))
        else:
            ids = [",".join(share[:8] for share in row.shares) or "-" for row in view.devices]
            shared = [(*row[:3], share, *row[3:]) for row, share in zip(cells, ids, strict=True)]
            tables.append(Table(("DEVICE", "HEALTH", "CLAIM", "SHARES", "PODS", "WHY"), shared))
    return tables


def _driver_cells(row: DriverRow) -> tuple[str, ...]:
    driver = row.driver
    endpoints = ",".join(driver.endpoints) or "-"
    return driver.name, driver_state(driver), driver.version or "-", driver.health or "-", str(row.claims), endpoints


CPU_HEADER = ("CPUS", "MEMORY", "POD", "CONTAINER")
SHARED, RESERVED = "(shared pool)", "(reserved)"


class CpuHolder(msgspec.Struct, frozen=True):
    """A container with exclusive CPUs or memory."""

    cpus: str
    memory: tuple[AllocatedMemory, ...]
    pod: str
    container: str


class CpuView(msgspec.Struct, frozen=True):
    """CPU lists; `shared` is empty with the CPU manager policy none."""

    online: str
    shared: str
    allocatable: str
    holders: tuple[CpuHolder, ...]


def _show_cpus(args: argparse.Namespace) -> int:
    shown = ask(layout_from(args), _cpu_view)
    if args.output == "json":
        print_json(shown)
    elif shown.shared or shown.holders:
        show(Table(CPU_HEADER, cpu_cells(shown)))
    else:
        print(f"all containers share CPUs {shown.online}; see --cpu-manager-policy of `nodeplane up`")
    return 0


async def _cpu_view(asking: Asking) -> CpuView:
    machines, placements, pods = await asyncio.gather(
        held(asking.bus, messages.MACHINE, Machine),
        held(asking.bus, messages.PLACEMENT, Placement),
        held(asking.bus, messages.ALLOCATIONS, PodAllocation),
    )
    return cpu_view_of(machines[messages.NODE], placements[messages.NODE], pods)


def cpu_view_of(machine: Machine, placement: Placement, pods: dict[str, PodAllocation]) -> CpuView:
    """Return the holders of CPUs, sorted by their first CPU."""
    holders = [
        CpuHolder(format_list(item.cpus), item.memory, f"{pod.namespace}/{pod.name}", item.name)
        for pod in pods.values()
        for item in pod.containers
        if item.cpus or item.memory
    ]
    holders.sort(key=lambda holder: (min(parse_list(holder.cpus), default=1 << 30), holder.pod, holder.container))
    return CpuView(placement.online, placement.shared, format_list(machine.cpus), tuple(holders))


def cpu_cells(shown: CpuView) -> list[tuple[str, ...]]:
    """Return the rows of the table: holders, then the shared pool and the reserved CPUs."""
    rows: list[tuple[str, ...]] = [
        (item.cpus or "-", memory(item.memory), item.pod, item.container) for item in shown.holders
    ]
    if shown.shared:
        reserved = format_list(parse_list(shown.online) - parse_list(shown.allocatable))
        rows += [(shown.shared, "-", SHARED, "-"), (reserved or "-", "-", RESERVED, "-")]
    return rows


def memory(blocks: tuple[AllocatedMemory, ...]) -> str:
    """Return amounts at NUMA nodes, such as `1Gi@0 hugepages-2Mi=4Mi@0`."""
    return " ".join(_block(block) for block in blocks if block.size) or "-"


def _block(block: AllocatedMemory) -> str:
    kind = "" if block.type == "memory" else f"{block.type}="
    return f"{kind}{Quantity(block.size * NANO, BINARY_SI)}@{'+'.join(map(str, block.numa))}"
