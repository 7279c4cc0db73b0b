"""Pod garbage collection: remove pods of missing nodes, deleted pods that no node ends, and surplus finished ones.

A missing node is confirmed by a live read after WAIT_S before its pods are removed.
"""

import asyncio
import functools
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from actors.controllers.common.informers import trim_to_metadata
from actors.controllers.lifecycle.stale_disruptions import TARGET, disruption_targets
from actors.controllers.nodes.taints import is_ready, taints_of
from protocols.kinds import views
from protocols.kinds.table import NODES, PODS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, fields_of, key_of, meta, name_of, namespace_of, terminating, uid_of
from protocols.kube.pods import is_finished, node_of
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.process.tasks import failed, wait_set

WAIT_S, AGAIN_S = 60.0, 10.0
MOST_FINISHED = 12_500
"""Finished pods that stay, as upstream's --terminated-pod-gc-threshold."""
MOST_AT_ONCE = 500
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Key of the taint by which users declare a node that is not ready to be off, so that nothing of it runs any more."""


class MissingNodes:
    """Nodes that pods are bound to but that do not exist, with the time of their next check. Pure; monotonic times."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def missing(self, node: str, at: float) -> None:
        self._due.setdefault(node, at + WAIT_S)

    def back(self, node: str) -> None:
        self._due.pop(node, None)

    def later(self, node: str, at: float) -> None:
        """Check again in AGAIN_S."""
        self._due[node] = at + AGAIN_S

    def due(self, at: float) -> list[str]:
        return [node for node, when in self._due.items() if when <= at]

    def pause(self, at: float) -> float | None:
        """Return the seconds until a check is due; None when there is none."""
        return max(0.0, min(self._due.values()) - at) if self._due else None


SPEC = ("resourceClaims", "tolerations")
STATUS = ("reason", "startTime", "resourceClaimStatuses", "extendedResourceClaimStatus")


def trim_pod(obj: Object) -> Object:
    """Return the pod with only its metadata, node, tolerations, phase, claims and DisruptionTarget."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kept = fields_of(spec, SPEC)
    if "tolerations" in kept:
        kept["tolerations"] = _decode(msgspec.msgpack.encode(kept["tolerations"]))
    targets = disruption_targets(obj)
    return {
        "metadata": {**trim_to_metadata(obj)["metadata"], **_created(obj)},
        **PODS.type_meta,
        "spec": {"nodeName": spec.get("nodeName") or "", **kept},
        "status": {
            "phase": status.get("phase") or "",
            **fields_of(status, STATUS),
            **({"conditions": targets} if targets else {}),
        },
    }


def _created(obj: Object) -> Object:
    created = meta(obj).get("creationTimestamp")
    return {"creationTimestamp": created} if created else {}


@functools.lru_cache(maxsize=256)
def _decode(tolerations: bytes) -> list[Object]:
    """Return one list for equal tolerations: most pods have the two default ones, a kilobyte for each pod."""
    return msgspec.msgpack.decode(tolerations, type=list[Object])


def is_off(node: views.Node) -> bool:
    """Return True for a node that is out of service; one that is ready runs its pods whatever its taints are."""
    return not is_ready(node) and any(taint.get("key") == OUT_OF_SERVICE for taint in taints_of(node))


def pod_lost_patch() -> Object:
    """Return the status patch for a pod whose node is missing, so that its watchers see why."""
    reason = {
        "type": TARGET,
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": now(),
    }
    return {"status": {"conditions": [reason], "phase": "Failed"}}


def _thinning(pod: Object) -> tuple[bool, str]:
    """Return the sort key of finished pods: those that a node evicted go first, then the oldest."""
    status = pod.get("status") or {}
    evicted = (status.get("phase"), status.get("reason")) == ("Failed", "Evicted")
    return not evicted, str(meta(pod).get("creationTimestamp"))


class PodGarbageCollector:
    """Handle pods; the attribute `nodes` is the handler for nodes.

    `left` is called with a namespace when its last pod is deleted.
    """

    def __init__(self, client: ApiClient, log: logging.Logger, left: Callable[[str], None]) -> None:
        self._client = client
        self._log = log
        self._left = left
        self._missing_nodes = MissingNodes()
        self._stuck: dict[str, Object] = {}
        """Deleted pods by uid that no node will end."""
        self._finished: set[str] = set()
        """Keys of finished pods that nobody deletes."""
        self._thin_at = 0.0
        self._counts: Counter[str] = Counter()
        """Pods of each namespace that has some."""
        self._wake = asyncio.Event()
        self.pods: Mapping[str, Object] = {}
        self.known: Mapping[str, views.Node] = {}
        """Existing nodes. Both are informers' stores, set when the informers exist."""
        self.nodes = _NodeHandler(self._missing_nodes.back, self._node_off, self._node_gone)

    def on_add(self, obj: Object) -> None:
        self._counts[namespace_of(obj)] += 1
        self._check(obj)

    def _check(self, obj: Object) -> None:
        if is_finished(obj) and not terminating(obj):
            self._finished.add(key_of(obj))
            if self._surplus() > 0:
                self._wake.set()
        else:
            self._finished.discard(key_of(obj))
        node = node_of(obj)
        if node and node not in self.known:
            self._node_gone(node)
        elif self._is_stuck(obj):
            self._stuck[uid_of(obj)] = obj
            self._wake.set()

    def _is_stuck(self, pod: Object) -> bool:
        node = node_of(pod)
        return terminating(pod) and (not node or is_off(self.known.get(node) or {}))

    def on_update(self, old: Object, new: Object) -> None:
        self._check(new)

    def on_delete(self, obj: Object) -> None:
        self._finished.discard(key_of(obj))
        namespace = namespace_of(obj)
        self._counts[namespace] -= 1
        if not self._counts[namespace]:
            del self._counts[namespace]
            self._left(namespace)

    def _node_gone(self, node: str) -> None:
        self._missing_nodes.missing(node, self._now())
        self._wake.set()

    def _node_off(self, node: str) -> None:
        for pod in self.pods.values():
            if node_of(pod) == node:
                self._check(pod)

    async def run(self) -> None:
        while True:
            await wait_set(self._wake, self._pause())
            self._wake.clear()
            for uid, pod in list(self._stuck.items()):
                if not self._is_stuck(pod) or await self._end(pod):
                    del self._stuck[uid]
            await self._thin()
            for node in self._missing_nodes.due(self._now()):
                self._missing_nodes.later(node, self._now())
                try:
                    await self._process(node)
                except Exception as error:
                    failed("pod collection", node, error)

    def _pause(self) -> float | None:
        """Return the seconds until the next pass; None when only a change leads to one."""
        pause = self._missing_nodes.pause(self._now())
        waits = self._stuck or self._surplus() > 0
        return pause if not waits else min(AGAIN_S, AGAIN_S if pause is None else pause)

    def _surplus(self) -> int:
        return len(self._finished) - MOST_FINISHED

    async def _thin(self) -> None:
        """Remove evicted pods, then the oldest finished ones; at most every AGAIN_S, since it sorts all of them."""
        number = min(self._surplus(), MOST_AT_ONCE)
        if number <= 0 or self._now() < self._thin_at:
            return
        self._thin_at = self._now() + AGAIN_S
        finished = (self.pods[key] for key in self._finished if key in self.pods)
        for pod in heapq.nsmallest(number, finished, key=_thinning):
            await self._remove(pod, None, "it is the oldest of too many finished ones")

    async def _process(self, node: str) -> None:
        pods = [pod for pod in self.pods.values() if node_of(pod) == node]
        if not (pods and await self._exists(node)) and all([await self._lose(pod) for pod in pods]):
            self._missing_nodes.back(node)

    async def _exists(self, node: str) -> bool:
        """Return False only when the API server reports that the node does not exist."""
        try:
            await self._client.get(NODES, node)
        except (ApiAway, ApiError) as error:
            return not (isinstance(error, ApiError) and error.code == 404)
        return True

    async def _lose(self, pod: Object) -> bool:
        return await self._remove(pod, pod_lost_patch(), "its node does not exist")

    async def _end(self, pod: Object) -> bool:
        """Mark the pod Failed, which nobody else does: its finalizers may wait for that."""
        why = "its node is out of service" if node_of(pod) else "has no node"
        return await self._remove(pod, {"status": {"phase": "Failed"}}, f"it was deleted and {why}")

    async def _remove(self, pod: Object, patch: Object | None, why: str) -> bool:
        """Delete a pod at once, after `patch` of its status unless it finished. Return False to try again."""
        name, namespace = name_of(pod), namespace_of(pod)
        try:
            if patch is not None and not is_finished(pod):
                patch["metadata"] = {"uid": uid_of(pod)}
                await self._client.patch(PODS, name, namespace, patch, kind="strategic", subresource="status")
            await self._client.delete(PODS, name, namespace, grace=0, uid=uid_of(pod))
        except (ApiAway, ApiError) as error:
            gone = isinstance(error, ApiError) and error.code in (404, 409)
            if not gone:
                self._log.info("pod not removed pod=%s/%s error=%s", namespace, name, error)
            return gone
        except Exception as error:
            failed("pod collection", f"{namespace}/{name}", error)
            return False
        self._log.warning("pod removed: %s pod=%s/%s", why, namespace, name)
        return True

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _NodeHandler:
    def __init__(self, back: Callable[[str], None], off: Callable[[str], None], gone: Callable[[str], None]) -> None:
        self._back, self._off, self._gone = back, off, gone

    def on_add(self, obj: views.Node) -> None:
        self._back(name_of(obj))
        self.on_update({}, obj)

    def on_update(self, old: views.Node, new: views.Node) -> None:
        if is_off(new) and not is_off(old):
            self._off(name_of(new))

    def on_delete(self, obj: views.Node) -> None:
        self._gone(name_of(obj))
