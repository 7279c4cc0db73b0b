"""The figures of `nodeplane top pods`: the runtime's counters, read twice."""

import asyncio

from protocols.messages import cri
from protocols.messages.cri import CriCall, CriReply
from protocols.wire import cri_pb2 as pb
from supervisor.cli.ask import Asking

MIB = 1024 * 1024
Row = tuple[str, str, str, str, str]


async def rows(asking: Asking, seconds: float) -> list[Row]:
    """A row per container that runs, sorted."""
    before = {item.attributes.id: item.cpu for item in (await _stats(asking)).stats}
    await asyncio.sleep(seconds)
    return sorted(_row(item, before.get(item.attributes.id)) for item in (await _stats(asking)).stats if _runs(item))


def _runs(item: "pb.ContainerStats") -> bool:
    return bool(item.memory.working_set_bytes.value)


def _row(item: "pb.ContainerStats", before: "pb.CpuUsage | None") -> Row:
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
    call = CriCall(operation="ListContainerStats", request=b"")
    reply = await asking.call(cri.OWNER, cri.CALL, call, CriReply)
    return pb.ListContainerStatsResponse.FromString(reply.response)
