"""Taint eviction controller: delete pods that do not tolerate a NoExecute taint of their node, or no longer.

A pod's time is computed again whenever the pod or its node's taints change, and once more before the deletion; timers
only schedule the next check.
"""

import logging
import time
from collections.abc import Mapping

from actors.controllers.common.pod_eviction import EvictionMetrics, EvictionTexts, PodEvictor
from actors.controllers.nodes.taints import eviction_time, execute_taints
from protocols.kinds import views
from protocols.kube.meta import key_of, name_of, terminating
from protocols.kube.pods import node_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.workqueue import Key, WorkQueue

TEXTS = EvictionTexts(
    reason="TaintManagerEviction",
    condition="DeletionByTaintManager",
    message="Taint manager: deleting due to NoExecute taint",
)
POD = "pod"


class TaintEvictionController:
    """Handle pods; NodeController calls `node_changed`. `pods` and `nodes` are the informers' stores."""

    def __init__(
        self, client: ApiClient, recorder: EventRecorder, metrics: EvictionMetrics, log: logging.Logger
    ) -> None:
        self._evictor = PodEvictor(client, recorder, metrics, TEXTS)
        self._work = WorkQueue(self._step, log)
        self._due: dict[str, float] = {}
        """Pod key -> time of its eviction."""
        self._on_node: dict[str, set[str]] = {}
        self._seen: dict[str, dict[str, float]] = {}
        """Node -> times at which its NoExecute taints were seen first, by their keys."""
        self.pods: Mapping[str, views.Pod] = {}
        self.nodes: Mapping[str, views.Node] = {}

    async def run(self) -> None:
        await self._work.run()

    def pods_on(self, node: str) -> frozenset[str]:
        """Return the keys of the node's pods."""
        return frozenset(self._on_node.get(node, ()))

    def pod_changed(self, pod: views.Pod) -> None:
        if node := node_of(pod):
            self._on_node.setdefault(node, set()).add(key_of(pod))
            if self._taints(node) or key_of(pod) in self._due:
                self._work.put((POD, key_of(pod)))

    def pod_gone(self, pod: views.Pod) -> None:
        key, node = key_of(pod), node_of(pod)
        self._work.cancel_timer((POD, key))
        self._due.pop(key, None)
        self._evictor.gone(pod)
        if keys := self._on_node.get(node):
            keys.discard(key)
            if not keys:
                del self._on_node[node]

    def node_changed(self, old: views.Node | None, new: views.Node | None) -> None:
        before, after = (execute_taints(node) if node else [] for node in (old, new))
        name = name_of(new or old or {})
        seen = self._seen.pop(name, {})
        if after:
            self._seen[name] = {key: seen.get(key, time.time()) for key in (str(taint.get("key")) for taint in after)}
        if before != after:
            self._work.put(*((POD, key) for key in self._on_node.get(name, ())))

    def _taints(self, node: str) -> list[views.Taint]:
        known = self.nodes.get(node)
        return execute_taints(known) if known else []

    async def _step(self, key: Key) -> None:
        self._work.cancel_timer(key)
        pod = self.pods.get(key[1])
        evicted = self._eviction_time(pod) if pod is not None else None
        if evicted is None or pod is None:
            self._cancel(key[1], pod)
            return
        due, taint = evicted
        self._due[key[1]] = due
        if (left := due - time.time()) > 0:
            self._work.put_later(key, left)
            return
        cause = {"taint": taint, "node": node_of(pod)}
        await self._evictor.evict(pod, due, f"Marking for deletion Pod {key[1]}", cause)
        self._due.pop(key[1], None)

    def _eviction_time(self, pod: views.Pod) -> tuple[float, str] | None:
        if self._evictor.is_leaving(pod):
            return None
        node = node_of(pod)
        return eviction_time(pod, self._taints(node), self._seen.get(node, {}))

    def _cancel(self, key: str, pod: views.Pod | None) -> None:
        self._evictor.forget(key)
        pending = self._due.pop(key, None) is not None
        if pending and pod is not None and not terminating(pod):
            self._evictor.event(pod, f"Cancelling deletion of Pod {key}")
