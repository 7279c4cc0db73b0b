"""CPU and memory of a running plane: `nodeplane top` of its processes, `nodeplane top pods` of its containers."""

import argparse
import asyncio
import time
from typing import TYPE_CHECKING

from protocols.messages import cri
from protocols.messages.cri import CriCall, CriReply
from protocols.messages.supervisor import PlaneStatus
from protocols.process.proc import PARENT, sizes, stat_number
from supervisor.base.errors import until_interrupted
from supervisor.base.terminal import Table, clear, show
from supervisor.cli.flags import layout_from
from supervisor.client.connection import Asking, ask
from supervisor.tree.states import usage_of

if TYPE_CHECKING:
    from protocols.wire import cri_pb2 as pb


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    usage = subparsers.add_parser("top", help="CPU and memory", allow_abbrev=False)
    usage.add_argument("what", nargs="?", choices=("actors", "pods"), default="actors", help="default: actors")
    usage.add_argument("--watch", action="store_true", help="go on until Ctrl-C")
    usage.set_defaults(run=_top)


SAMPLE_S = 1.0


def _top(args: argparse.Namespace) -> int:
    if args.watch:
        return until_interrupted(lambda: _watch(args))
    show(_measured(args))
    return 0


def _watch(args: argparse.Namespace) -> None:
    while True:
        measured = _measured(args)
        clear()
        show(measured)


def _measured(args: argparse.Namespace) -> Table:
    layout = layout_from(args)
    return ask(layout, sample_pods) if args.what == "pods" else sample(ask(layout, Asking.status))


def sample(plane: PlaneStatus) -> Table:
    """Measure every process for a second."""
    actors = {actor.instance: actor.pid for actor in plane.actors if actor.pid}
    pids = {"supervisor": plane.pid, "forkserver": stat_number(next(iter(actors.values()), 0), PARENT), **actors}
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(SAMPLE_S)
    rows = [_process_row(name, pid, before[name]) for name, pid in pids.items()]
    cpu, memory = sum(row[2] for row in rows), sum(row[3] for row in rows)
    shown = [(name, str(pid), f"{use:.1f}", f"{mib:.1f}") for name, pid, use, mib in rows]
    return Table(("ACTOR", "PID", "CPU%", "PSS MiB"), [*shown, ("total", "", f"{cpu:.1f}", f"{memory:.1f}")])


async def sample_pods(asking: Asking) -> Table:
    """Measure every running container for a second, with any runtime."""
    return Table(("NAMESPACE", "POD", "CONTAINER", "CPU%", "MEMORY MiB"), await pod_rows(asking, SAMPLE_S))


def _process_row(name: str, pid: int, before: float) -> tuple[str, int, float, float]:
    return name, pid, max(0.0, cpu_seconds(pid) - before) / SAMPLE_S * 100, pss_mib(pid)


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process; 0 if it is gone."""
    usage = usage_of(pid)
    return usage.cpu_s if usage else 0.0


def pss_mib(pid: int) -> float:
    """Return the proportional set size of a process; 0 if it is gone or not ours."""
    return sizes(f"/proc/{pid}/smaps_rollup").get("Pss", 0) / MIB


MIB = 1024 * 1024
PodRow = tuple[str, str, str, str, str]


async def pod_rows(asking: Asking, seconds: float) -> list[PodRow]:
    """Return a row per running container from the counters of the runtime, read twice; sorted."""
    before = {item.attributes.id: item.cpu for item in (await _stats(asking)).stats}
    await asyncio.sleep(seconds)
    return sorted(
        _pod_row(item, before.get(item.attributes.id)) for item in (await _stats(asking)).stats if _is_running(item)
    )


def _is_running(item: "pb.ContainerStats") -> bool:
    return bool(item.memory.working_set_bytes.value)


def _pod_row(item: "pb.ContainerStats", before: "pb.CpuUsage | None") -> PodRow:
    labels = item.attributes.labels
    used = passed = 0
    if before is not None:
        used = item.cpu.usage_core_nano_seconds.value - before.usage_core_nano_seconds.value
        passed = item.cpu.timestamp - before.timestamp
    name = labels.get("io.kubernetes.container.name") or item.attributes.metadata.name
    pod = (labels.get("io.kubernetes.pod.namespace", ""), labels.get("io.kubernetes.pod.name", ""))
    memory = item.memory.working_set_bytes.value / MIB
    return (*pod, name, f"{max(0, used) / passed * 100 if passed > 0 else 0.0:.1f}", f"{memory:.1f}")


async def _stats(asking: Asking) -> "pb.ListContainerStatsResponse":
    from protocols.wire import cri_pb2  # loads protobuf

    call = CriCall(operation="ListContainerStats", request=b"")
    reply = await asking.call(cri.OWNER, cri.CALL, call, CriReply)
    return cri_pb2.ListContainerStatsResponse.FromString(reply.response)
