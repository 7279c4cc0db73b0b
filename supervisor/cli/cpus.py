"""`nodeplane cpus`: which CPUs and memory each container has for itself, and what all others share."""

import argparse

import msgspec

from protocols.bus import Replica
from protocols.cpulist import format_list, parse_list
from protocols.kube.quantity import BINARY_SI, NANO, Quantity
from protocols.messages import devices as messages
from protocols.messages.devices import AllocatedMemory, Machine, Placement, PodAllocation
from supervisor.cli.ask import Asking, ask, devices_known
from supervisor.cli.flags import layout_from
from supervisor.cli.table import print_json, table

HEADER = ("CPUS", "MEMORY", "POD", "CONTAINER")
SHARED, RESERVED = "(shared pool)", "(reserved)"


class Holder(msgspec.Struct, frozen=True):
    cpus: str
    memory: tuple[AllocatedMemory, ...]
    pod: str
    container: str


class Shown(msgspec.Struct, frozen=True):
    """CPU lists; `shared` is empty while the CPU manager's policy is none."""

    online: str
    shared: str
    allocatable: str
    holders: tuple[Holder, ...]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("cpus", help="list exclusive CPUs and memory", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    shown = ask(layout_from(args), gather)
    if args.output == "json":
        print_json(shown)
    elif shown.shared or shown.holders:
        print(table(HEADER, cells(shown)))
    else:
        print(f"all containers share CPUs {shown.online}; see --cpu-manager-policy of `nodeplane up`")
    return 0


async def gather(asking: Asking) -> Shown:
    machines, placements, pods = Replica[Machine](), Replica[Placement](), Replica[PodAllocation]()
    follow, owner = asking.bus.follow, messages.OWNER
    following = (
        follow(owner=owner, stream=messages.MACHINE, sink=machines, type=Machine),
        follow(owner=owner, stream=messages.PLACEMENT, sink=placements, type=Placement),
        follow(owner=owner, stream=messages.ALLOCATIONS, sink=pods, type=PodAllocation),
    )
    await devices_known(following)
    return shown_of(machines.items[messages.NODE], placements.items[messages.NODE], pods.items)


def shown_of(machine: Machine, placement: Placement, pods: dict[str, PodAllocation]) -> Shown:
    holders = [
        Holder(format_list(item.cpus), item.memory, f"{pod.namespace}/{pod.name}", item.name)
        for pod in pods.values()
        for item in pod.containers
        if item.cpus or item.memory
    ]
    holders.sort(key=lambda holder: (min(parse_list(holder.cpus), default=1 << 30), holder.pod, holder.container))
    return Shown(placement.online, placement.shared, format_list(machine.cpus), tuple(holders))


def cells(shown: Shown) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (item.cpus or "-", memory(item.memory), item.pod, item.container) for item in shown.holders
    ]
    if shown.shared:
        reserved = format_list(parse_list(shown.online) - parse_list(shown.allocatable))
        rows += [(shown.shared, "-", SHARED, "-"), (reserved or "-", "-", RESERVED, "-")]
    return rows


def memory(blocks: tuple[AllocatedMemory, ...]) -> str:
    """`1Gi@0 hugepages-2Mi=4Mi@0`: amounts at NUMA nodes."""
    return " ".join(_block(block) for block in blocks if block.size) or "-"


def _block(block: AllocatedMemory) -> str:
    kind = "" if block.type == "memory" else f"{block.type}="
    return f"{kind}{Quantity(block.size * NANO, BINARY_SI)}@{'+'.join(map(str, block.numa))}"
