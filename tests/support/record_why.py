"""Write the evidence of `nodeplane why` about a pod: `python -m tests.support.record_why ROOT POD FILE`."""

import asyncio
import sys
from pathlib import Path

import msgspec

from protocols.process.layout import layout
from supervisor.why.gather.pod import gather_pod
from supervisor.why.gather.sources import connected
from supervisor.why.model.types import PodEvidence

FIRST, ENDS = 32, ("delete", "evict", "preempted", "device health")
"""Steps of a trace that are kept: those of the start, and these."""


async def record(root: str, pod: str) -> PodEvidence:
    async with connected(layout(root)) as sources:
        return await gather_pod(sources, "default", pod)


def smaller(found: PodEvidence) -> PodEvidence:
    steps = tuple(row for at, row in enumerate(found.steps) if at < FIRST or row.name in ENDS)
    if found.pod and not found.pod["metadata"].get("finalizers"):
        found.pod["metadata"].pop("managedFields", None)
    return msgspec.structs.replace(found, steps=steps)


if __name__ == "__main__":
    root, pod, file = sys.argv[1:]
    Path(file).write_bytes(msgspec.json.encode(smaller(asyncio.run(record(root, pod)))) + b"\n")
