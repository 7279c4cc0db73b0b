"""`nodeplane devices --plugins`: every resource of the node, what is left of it, and the plugin behind it."""

import argparse
import time

import msgspec

from protocols.bus import Replica
from protocols.messages import devices as messages
from protocols.messages.devices import HEALTHY, PluginView, PodAllocation, ResourceInventory
from supervisor.cli.ask import Asking, ask, devices_known
from supervisor.cli.flags import layout_from
from supervisor.cli.table import print_json, table

HEADER = ("RESOURCE", "CAPACITY", "ALLOCATABLE", "HELD", "PLUGIN", "STATE", "SINCE", "CALLS", "WHY")


class ResourceRow(msgspec.Struct, frozen=True):
    resource: str
    capacity: int
    allocatable: int
    held: int
    plugins: tuple[PluginView, ...]
    """The one that serves first."""


def run_plugins(args: argparse.Namespace) -> int:
    rows = ask(layout_from(args), gather)
    if args.output == "json":
        print_json(rows)
    elif rows:
        now = time.time_ns()
        print(table(HEADER, [cells for row in rows for cells in lines(row, now)]))
    else:
        print("no device plugin has registered yet; try `nodeplane plugin --resource example.com/gpu --devices 4`")
    return 0


async def gather(asking: Asking) -> list[ResourceRow]:
    inventory, plugins, pods = Replica[ResourceInventory](), Replica[PluginView](), Replica[PodAllocation]()
    follow, owner = asking.bus.follow, messages.OWNER
    following = (
        follow(owner=owner, stream=messages.DEVICES, sink=inventory, type=ResourceInventory),
        follow(owner=owner, stream=messages.PLUGINS, sink=plugins, type=PluginView),
        follow(owner=owner, stream=messages.ALLOCATIONS, sink=pods, type=PodAllocation),
    )
    await devices_known(following)
    return rows_of(inventory.items, plugins.items, pods.items)


def rows_of(
    inventory: dict[str, ResourceInventory], plugins: dict[str, PluginView], pods: dict[str, PodAllocation]
) -> list[ResourceRow]:
    """A row per resource this node ever had, sorted."""
    held = {(device.resource, device.id) for pod in pods.values() for c in pod.containers for device in c.devices}
    order = (messages.PLUGIN_SERVES, messages.PLUGIN_SILENT, messages.PLUGIN_WAITS, messages.PLUGIN_GONE)
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


def lines(row: ResourceRow, now_ns: int) -> list[tuple[str, ...]]:
    """One line per plugin; the resource stands in the first one only."""
    figures = (row.resource, str(row.capacity), str(row.allocatable), str(row.held))
    if not row.plugins:
        return [(*figures, "-", "not back yet", "-", "-", "")]
    first, *others = (_plugin_cells(view, now_ns) for view in row.plugins)
    return [(*figures, *first), *(("", "", "", "", *cells) for cells in others)]


def _plugin_cells(view: PluginView, now_ns: int) -> tuple[str, ...]:
    """CALLS: what the plugin asks the node to call beside Allocate."""
    wishes = (("preferred", view.preferred), ("prestart", view.pre_start))
    calls = ",".join(name for name, wanted in wishes if wanted) or "-"
    return view.socket, view.state, f"{max(0, now_ns - view.since_ns) // 10**9}s", calls, view.why
