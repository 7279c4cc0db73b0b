"""`nodeplane devices`: every device of the node, its health, and the pod that holds it."""

import argparse

import msgspec

from protocols.bus import Replica
from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth, PodAllocation, ResourceInventory
from supervisor.cli.ask import Asking, ask, devices_known
from supervisor.cli.flags import layout_from
from supervisor.cli.table import print_json, table

HEADER = ("RESOURCE", "DEVICE", "NUMA", "HEALTH", "POD", "CONTAINER", "WHY")


class Row(msgspec.Struct, frozen=True):
    resource: str
    device: str
    numa: tuple[int, ...]
    health: str
    message: str
    pod: str
    containers: tuple[str, ...]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("devices", help="list devices and who has them", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--plugins", action="store_true", help="resources and the plugins behind them")
    parser.add_argument("--drivers", action="store_true", help="DRA drivers, and the devices of claims")
    views = parser.add_argument_group("DRA devices")
    one = views.add_mutually_exclusive_group()
    one.add_argument("--patched", action="store_true", help="each value as the scheduler sees it, and who says so")
    one.add_argument("--published", action="store_true", help="each value as its driver publishes it")
    one.add_argument("--explain", metavar="DEVICE", help="one device: NAME or DRIVER/POOL/NAME")
    views.add_argument("--kubeconfig", metavar="FILE", help="of the API to ask (default ROOT/kubeconfig)")
    views.add_argument("--slices", metavar="FILE", action="append", help="read these instead of an API")
    views.add_argument("--patches", metavar="FILE", action="append", help="patches, rules and classes for --slices")
    views.add_argument("--claim", metavar="FILE", action="append", help="show what this claim would be given")
    views.add_argument("--feature-gates", metavar="NAME=BOOL,...", default="", help="as given to `up`")


def run(args: argparse.Namespace) -> int:
    from supervisor.cli.dra_devices import is_asked, run_view

    if is_asked(args):
        return run_view(args)
    if args.plugins:
        from supervisor.cli.device_plugins import run_plugins

        return run_plugins(args)
    if args.drivers:
        from supervisor.cli.dra_drivers import run_drivers

        return run_drivers(args)
    rows = ask(layout_from(args), gather)
    if args.output == "json":
        print_json(rows)
    elif rows:
        print(table(HEADER, [cells(row) for row in rows]))
    else:
        print("no device plugin has registered yet; try `nodeplane plugin --resource example.com/gpu --devices 4`")
    return 0


async def gather(asking: Asking) -> list[Row]:
    """One consistent look at the device manager's streams."""
    inventory = Replica[ResourceInventory]()
    health = Replica[DeviceHealth]()
    pods = Replica[PodAllocation]()
    follow = asking.bus.follow
    owner = messages.OWNER
    following = (
        follow(owner=owner, stream=messages.DEVICES, sink=inventory, type=ResourceInventory),
        follow(owner=owner, stream=messages.HEALTH, sink=health, type=DeviceHealth),
        follow(owner=owner, stream=messages.ALLOCATIONS, sink=pods, type=PodAllocation),
    )
    await devices_known(following)
    return rows_of(inventory.items, health.items, pods.items)


def rows_of(
    inventory: dict[str, ResourceInventory], health: dict[str, DeviceHealth], pods: dict[str, PodAllocation]
) -> list[Row]:
    """A row per device that is reported or held, sorted."""
    numa = {(item.resource, item.id): item.numa for entry in inventory.values() for item in entry.devices}
    holders: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for pod in pods.values():
        for container in pod.containers:
            for item in container.devices:
                numa.setdefault((item.resource, item.id), item.numa)
                holder = holders.setdefault((item.resource, item.id), (f"{pod.namespace}/{pod.name}", []))
                holder[1].append(container.name)
    states = {(item.resource, item.id): item for item in health.values()}
    return [_row(key, numa[key], states.get(key), holders.get(key, ("", []))) for key in sorted(numa)]


def _row(key: tuple[str, str], numa: tuple[int, ...], state: DeviceHealth | None, holder: tuple[str, list[str]]) -> Row:
    return Row(
        resource=key[0],
        device=key[1],
        numa=numa,
        health=state.health if state else messages.UNKNOWN,
        message=state.message if state else "",
        pod=holder[0],
        containers=tuple(holder[1]),
    )


def cells(row: Row) -> tuple[str, ...]:
    numa = ",".join(map(str, row.numa)) or "-"
    return row.resource, row.device, numa, row.health, row.pod or "-", ",".join(row.containers) or "-", row.message
