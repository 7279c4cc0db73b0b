"""Evidence in the API's DRA objects about a waiting pod, and about a device."""

import asyncio
from collections.abc import Iterable

from protocols.cel.worker.forked import forked_selections
from protocols.dra.gates import Gates
from protocols.kinds import views
from protocols.kinds.table import NODES, PODS, RESOURCECLAIMS
from protocols.kube.meta import Object
from supervisor.dra.explain import TAINT, Explanation
from supervisor.dra.snapshot import snapshot_of
from supervisor.dra.sources import RESOURCES, list_objects
from supervisor.dra.why import PodAnswer, pod_answer
from supervisor.why.gather.sources import Sources


async def scheduling(sources: Sources, pod: views.Pod) -> PodAnswer | None:
    """Return why a pod has no node, as `nodeplane devices --why`. Raises ApiError, ApiAway, SupervisorError."""
    objects = await list_objects(sources.client, (*RESOURCES, RESOURCECLAIMS, NODES, PODS))
    return await asyncio.to_thread(_answer, pod, objects, sources.gates)


def _answer(pod: views.Pod, objects: list[Object], gates: Gates) -> PodAnswer:
    with forked_selections():
        return pod_answer(pod, objects, gates)


async def explanations(objects: Iterable[Object], gates: Gates) -> list[Explanation]:
    """Return each published device of these objects as patched, with the source of each value."""
    return await asyncio.to_thread(_explanations, list(objects), gates)


def _explanations(objects: list[Object], gates: Gates) -> list[Explanation]:
    with forked_selections():
        return snapshot_of(objects, gates).explanations()


def taint_texts(explained: Explanation) -> list[str]:
    """Return such as `example.com/broken:NoExecute "fan" by patch no-fans (priority 3)`."""
    priorities = {verdict.patch: f" (priority {verdict.priority})" for verdict in explained.patches}
    taints = [entry for entry in explained.entries if entry.kind == TAINT and entry.value]
    return [
        f"{taint.name} {taint.value} by {taint.source}{priorities.get(taint.source.removeprefix('patch '), '')}"
        for taint in taints
    ]
