"""`nodeplane watch`: follow the pod resources watch and print its events."""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from protocols.errors import NodeplaneError
from protocols.messages.devices import AllocatedDevice, AllocatedMemory, ContainerAllocation, PreparedClaim
from protocols.podresources import Action, AllocatableEvent, NotAnswering, PodEvent, PodResources, WatchOptions
from protocols.process.texts import printable
from supervisor.base.errors import SupervisorError, until_interrupted
from supervisor.base.terminal import json_text
from supervisor.base.values import socket_path
from supervisor.cli.flags import layout_from
from supervisor.client.connection import check_socket


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("watch", help="follow the pod-resources watch", allow_abbrev=False)
    parser.add_argument("what", choices=("pods", "allocatable"))
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    parser.add_argument("--socket", default="", metavar="SOCK", help="any server of the API, if not the plane's own")
    parser.add_argument(
        "--snapshot",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="first show what is there already (default)",
    )
    parser.add_argument("--retry", action="store_true", help="wait for a socket that nothing serves yet")
    parser.set_defaults(run=_watch)


def _watch(args: argparse.Namespace) -> int:
    return until_interrupted(lambda: asyncio.run(_print_events(args)))


async def _print_events(args: argparse.Namespace) -> None:
    show = printer(args.what, args.output)
    notes = sys.stderr if args.output == "json" else sys.stdout
    options = WatchOptions(
        snapshot=args.snapshot, on_break=lambda line: print(f"# {printable(line)}", file=notes, flush=True)
    )
    socket = socket_path(args.socket, "--socket") if args.socket else layout_from(args).pod_resources_socket
    async with PodResources(socket) as node:
        events: AsyncIterator[Any] = node.watch(options) if args.what == "pods" else node.watch_allocatable(options)
        try:
            if not args.retry:
                await node.connect()
            async for event in events:
                show(event)
        except NotAnswering as error:
            check_socket(Path(socket))
            raise SupervisorError(f"{socket}: {error}; start its server, or wait for it with --retry") from None
        except NodeplaneError as error:
            raise SupervisorError(f"{socket}: {error}") from None


def printer(what: str, output: str) -> Callable[[Any], None]:
    """Return the function that prints one event as text or as a line of JSON."""
    lines = {("pods", "text"): pod_lines, ("pods", "json"): pod_json, ("allocatable", "text"): _allocatable_lines}
    make: Callable[[Any], Iterable[str]] = lines.get((what, output), allocatable_json)  # type: ignore[assignment]  # each takes events of its own type

    def show(event: Any) -> None:
        for line in make(event):
            print(line if output == "json" else printable(line), flush=True)

    return show


def pod_lines(event: PodEvent) -> Iterable[str]:
    """Yield lines with time, action, pod, container and what it holds: devices, CPUs, memory, claims."""
    head = f"{_clock()}  {event.action.name:<7}  {event.pod.namespace}/{event.pod.name}"
    parts = [f"{item.name}  {part}" for item in event.pod.containers for part in _parts(item)]
    parts += [f"(pod)  {part}" for part in _exclusive(event.pod.cpus, event.pod.memory)]
    if event.action is Action.DELETED:
        parts = []
    yield from (f"{head}  {part}" for part in parts or ["-"])


def _allocatable_lines(event: AllocatableEvent) -> Iterable[str]:
    head = f"{_clock()}  {event.action.name:<7}"
    for part in (*_grouped(event.devices), *_exclusive(event.cpus, event.memory)):
        yield f"{head}  {part}"


class ContainerHeld(msgspec.Struct, frozen=True):
    """All that a container holds."""

    name: str
    devices: tuple[AllocatedDevice, ...]
    cpus: tuple[int, ...]
    """Exclusive CPUs."""
    memory: tuple[AllocatedMemory, ...]
    claims: tuple[PreparedClaim, ...]


class PodLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of `nodeplane watch pods -o json`; empty fields are absent."""

    time: str
    """RFC 3339, with milliseconds and the offset of the local zone."""
    action: str
    """ADDED, MODIFIED or DELETED."""
    uid: str = ""
    namespace: str = ""
    name: str = ""
    containers: tuple[ContainerHeld, ...] = ()
    cpus: tuple[int, ...] = ()
    """Exclusive CPUs of the pod itself."""
    memory: tuple[AllocatedMemory, ...] = ()


class AllocatableDevice(msgspec.Struct, frozen=True):
    """A device that could be allocated, whether it is or not."""

    resource: str
    id: str
    numa: tuple[int, ...]
    """NUMA nodes, empty = no topology."""


class AllocatableLine(msgspec.Struct, frozen=True):
    """An event of `nodeplane watch allocatable -o json`: the resources that the action concerns."""

    time: str
    """RFC 3339, with milliseconds and the offset of the local zone."""
    action: str
    """ADDED, MODIFIED or DELETED."""
    devices: tuple[AllocatableDevice, ...]
    cpus: tuple[int, ...]
    memory: tuple[AllocatedMemory, ...]


def pod_json(event: PodEvent) -> Iterable[str]:
    """Yield one line of JSON, a PodLine."""
    pod = event.pod
    containers = tuple(ContainerHeld(c.name, c.devices, c.cpus, c.memory, c.claims) for c in pod.containers)
    line = PodLine(_timestamp(), event.action.name, pod.uid, pod.namespace, pod.name, containers, pod.cpus, pod.memory)
    yield json_text(msgspec.json.encode(line))


def allocatable_json(event: AllocatableEvent) -> Iterable[str]:
    """Yield one line of JSON, an AllocatableLine."""
    devices = tuple(AllocatableDevice(device.resource, device.id, device.numa) for device in event.devices)
    line = AllocatableLine(_timestamp(), event.action.name, devices, event.cpus, event.memory)
    yield json_text(msgspec.json.encode(line))


def _parts(container: ContainerAllocation) -> Iterable[str]:
    yield from _grouped(container.devices)
    yield from _exclusive(container.cpus, container.memory)
    yield from map(_claim, container.claims)


def _grouped(devices: Sequence[Any]) -> Iterable[str]:
    """Yield a text per resource, such as `gpu-0(numa 0) gpu-1(numa 0,1)`."""
    groups: dict[str, list[str]] = {}
    for device in devices:
        groups.setdefault(device.resource, []).append(device.id + _numa(device.numa))
    yield from (f"{resource}  {' '.join(ids)}" for resource, ids in groups.items())


def _exclusive(cpus: Sequence[int], memory: Sequence[AllocatedMemory]) -> Iterable[str]:
    if cpus:
        yield f"cpu  {','.join(map(str, cpus))}"
    yield from (f"{block.type}  {block.size}{_numa(block.numa)}" for block in memory)


def _claim(claim: PreparedClaim) -> str:
    devices = " ".join(device.id for device in claim.devices)
    return f"claim {claim.namespace}/{claim.name}  {devices}"


def _numa(nodes: Sequence[int]) -> str:
    return f"(numa {','.join(map(str, nodes))})" if nodes else ""


def _timestamp() -> str:
    """Return the time as of RFC 3339, with milliseconds and the offset of the local zone."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _clock() -> str:
    now = time.time()
    return time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
