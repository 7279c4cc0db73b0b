"""Write the evidence of `nodeplane why` about a target: `python -m tests.support.record_why ROOT KIND/NAME FILE`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from protocols.process.layout import layout
from supervisor.why.gather.live import connected
from supervisor.why.gather.others import gather_claim, gather_device, gather_node, gather_plugin
from supervisor.why.gather.pod import gather_pod
from supervisor.why.gather.sources import Sources
from supervisor.why.model.types import PodEvidence

FIRST, ENDS = 32, ("delete", "evict", "preempted", "device health")
"""Steps of a trace that are kept: those of the start, and these."""
GATHER: dict[str, Callable[[Sources, str], Awaitable[Any]]] = {
    "pod": lambda sources, name: gather_pod(sources, "default", name),
    "claim": lambda sources, name: gather_claim(sources, "default", name),
    "device": gather_device,
    "node": gather_node,
    "plugin": gather_plugin,
}


async def record(root: str, target: str) -> Any:
    kind, _, name = target.partition("/")
    async with connected(layout(root)) as sources:
        return await GATHER[kind](sources, name)


def smaller(found: Any) -> Any:
    if not isinstance(found, PodEvidence):
        return found
    steps = tuple(row for at, row in enumerate(found.steps) if at < FIRST or row.name in ENDS)
    if found.pod and not found.pod["metadata"].get("finalizers"):
        found.pod["metadata"].pop("managedFields", None)
    return msgspec.structs.replace(found, steps=steps)


if __name__ == "__main__":
    root, target, file = sys.argv[1:]
    Path(file).write_bytes(msgspec.json.encode(smaller(asyncio.run(record(root, target)))) + b"\n")
