"""Since when a node that pods are bound to does not exist. Pure; time is a monotonic clock's."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from actors.controllers.common.informers import slim
from protocols.kube.client import ApiClient
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, name_of, namespace_of, terminating, uid_of
from protocols.kube.resources import NODES, PODS
from protocols.kube.times import now

WAIT_S, AGAIN_S = 60.0, 10.0


class Strays:
    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def missing(self, node: str, at: float) -> None:
        self._due.setdefault(node, at + WAIT_S)

    def back(self, node: str) -> None:
        self._due.pop(node, None)

    def later(self, node: str, at: float) -> None:
        """It could not be settled."""
        self._due[node] = at + AGAIN_S

    def due(self, at: float) -> list[str]:
        return [node for node, when in self._due.items() if when <= at]

    def pause(self, at: float) -> float | None:
        """Seconds until something is due; None = nothing will be."""
        return max(0.0, min(self._due.values()) - at) if self._due else None


ENDED = ("Failed", "Succeeded")


SPEC, STATUS = ("resourceClaims",), ("resourceClaimStatuses", "extendedResourceClaimStatus")


def slim_pod(obj: Object) -> Object:
    """What is kept of a pod: where and how it is, and which claims it uses."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return {
        **slim(obj),
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"nodeName": spec.get("nodeName") or "", **{name: spec[name] for name in SPEC if name in spec}},
        "status": {"phase": status.get("phase") or "", **{name: status[name] for name in STATUS if name in status}},
    }


def node_of(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def lost_patch(pod: Object) -> Object:
    """What is said of a pod before it is removed: a status that those who wait for it can read."""
    reason = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": f"node {node_of(pod)} does not exist any more",
        "lastTransitionTime": now(),
    }
    phase = (pod.get("status") or {}).get("phase")
    return {"status": {"conditions": [reason], **({} if phase in ENDED else {"phase": "Failed"})}}


class PodKeeper:
    """A handler of pods; `nodes` is one of nodes. `left` is told the namespace of each pod that went."""

    def __init__(self, client: ApiClient, log: logging.Logger, left: Callable[[str], None]) -> None:
        self._client = client
        self._log = log
        self._left = left
        self._strays = Strays()
        self._unplaced: dict[str, Object] = {}
        self._wake = asyncio.Event()
        self.pods: Mapping[str, Object] = {}
        self.known: Mapping[str, Object] = {}
        """Nodes; both are the informers' items, set once they exist."""
        self.nodes = NodeHandler(self._strays.back, self._node_gone)

    def on_add(self, obj: Object) -> None:
        node = node_of(obj)
        if node and node not in self.known:
            self._node_gone(node)
        elif not node and terminating(obj):
            self._unplaced[uid_of(obj)] = obj
            self._wake.set()

    def on_update(self, old: Object, new: Object) -> None:
        self.on_add(new)

    def on_delete(self, obj: Object) -> None:
        self._left(namespace_of(obj))

    def _node_gone(self, node: str) -> None:
        self._strays.missing(node, self._now())
        self._wake.set()

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._strays.pause(self._now())):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            while self._unplaced:
                await self._remove(self._unplaced.popitem()[1], told=True)
            for node in self._strays.due(self._now()):
                await self._tend(node)

    async def _tend(self, node: str) -> None:
        pods = [pod for pod in self.pods.values() if node_of(pod) == node]
        if pods and await self._exists(node):
            self._strays.later(node, self._now())
        elif all([await self._remove(pod) for pod in pods]):
            self._strays.back(node)
        else:
            self._strays.later(node, self._now())

    async def _exists(self, node: str) -> bool:
        """True also when nobody can tell."""
        try:
            await self._client.get(NODES, node)
        except (ApiAway, ApiError) as error:
            return not (isinstance(error, ApiError) and error.code == 404)
        return True

    async def _remove(self, pod: Object, told: bool = False) -> bool:
        name, namespace = name_of(pod), namespace_of(pod)
        try:
            if not told:
                patch = lost_patch(pod)
                patch["metadata"] = {"uid": uid_of(pod)}
                await self._client.patch(PODS, name, namespace, patch, kind="strategic", subresource="status")
            await self._client.delete(PODS, name, namespace, grace=0, uid=uid_of(pod))
        except (ApiAway, ApiError) as error:
            gone = isinstance(error, ApiError) and error.code in (404, 409)
            if not gone:
                self._log.info("pod %s/%s: %s", namespace, name, error)
            return gone
        self._log.warning("pod %s/%s removed: there is no node to end it", namespace, name)
        return True

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class NodeHandler:
    def __init__(self, back: Callable[[str], None], gone: Callable[[str], None]) -> None:
        self._back = back
        self._gone = gone

    def on_add(self, obj: Object) -> None:
        self._back(name_of(obj))

    def on_update(self, old: Object, new: Object) -> None:
        """Only whether it exists counts."""

    def on_delete(self, obj: Object) -> None:
        self._gone(name_of(obj))
