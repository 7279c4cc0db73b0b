"""Delete pods for a reason that their status and an event state."""

import logging
import time
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from protocols.bounded import BoundedMap
from protocols.kinds import views
from protocols.kinds.table import PODS
from protocols.kube.errors import suppress_status
from protocols.kube.meta import key_of, name_of, namespace_of, terminating, uid_of
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.process.families import CounterFamily, HistogramFamily
from protocols.trace import span

log = logging.getLogger(__name__)
REMEMBERED = 500
BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class EvictionFamilies(NamedTuple):
    """Metrics of one controller."""

    deletions: CounterFamily
    latency: HistogramFamily


DEVICE_TAINTS = EvictionFamilies(
    CounterFamily(
        "device_taint_eviction_controller_pod_deletions_total", "Pods deleted because a device of theirs was tainted."
    ),
    HistogramFamily(
        "device_taint_eviction_controller_pod_deletion_duration_seconds",
        "Seconds from the end of a device taint's toleration to the pod's deletion.",
    ),
)
NODE_TAINTS = EvictionFamilies(
    CounterFamily("taint_eviction_controller_pod_deletions_total", "Pods deleted because their node was tainted."),
    HistogramFamily(
        "taint_eviction_controller_pod_deletion_duration_seconds",
        "Seconds from the end of a node taint's toleration to the pod's deletion.",
    ),
)


class EvictionMetrics:
    """Counters of one controller's evictions: how many, and how late after their deadline."""

    def __init__(self, registry: CollectorRegistry, families: EvictionFamilies) -> None:
        self._deletions = Counter(*families.deletions, registry=registry)
        self._latency = Histogram(*families.latency, buckets=BUCKETS, registry=registry)

    def deleted(self, seconds: float) -> None:
        self._deletions.inc()
        self._latency.observe(seconds)


class EvictionTexts(msgspec.Struct, frozen=True):
    """Texts of one controller, equal to upstream's since users filter by them."""

    reason: str
    """Reason of its events."""
    condition: str
    """Reason of the condition DisruptionTarget."""
    message: str


class PodEvictor:
    """Evicts pods for one controller; a pod that it deleted is not evicted again while the informer shows it."""

    def __init__(
        self, client: ApiClient, recorder: EventRecorder, metrics: EvictionMetrics, texts: EvictionTexts
    ) -> None:
        self._client, self._recorder, self._metrics, self._texts = client, recorder, metrics, texts
        self._announced: dict[str, str] = {}
        """Pod key -> uid of pods with condition and event written, so that a retried deletion does not repeat them."""
        self._evicted = BoundedMap[str, None](REMEMBERED)

    def is_leaving(self, pod: views.Pod) -> bool:
        """Return True for a pod that is being deleted, or whose deletion the informer may not show yet."""
        if terminating(pod):
            self._evicted.pop(uid_of(pod), None)
            return True
        return uid_of(pod) in self._evicted

    def forget(self, key: str) -> None:
        """Call it when the pod stays."""
        self._announced.pop(key, None)

    def gone(self, pod: views.Pod) -> None:
        """Forget a pod that is gone. A restored backup may bring it back, with its uid: then it is evicted again."""
        self.forget(key_of(pod))
        self._evicted.pop(uid_of(pod), None)

    def event(self, pod: views.Pod, message: str) -> None:
        self._recorder.event(pod, "Normal", self._texts.reason, message)

    async def evict(self, pod: views.Pod, due: float, announcement: str, cause: Mapping[str, str]) -> None:
        """Delete the pod, which is `due` since that time. `cause` names the taint. Raises ApiError and ApiAway.

        Also raises after 409: another pod has the name, which the informer will show, or there were too many writes.
        """
        with suppress_status(404), span(uid_of(pod), "evict", **cause):
            if self._announced.get(key_of(pod)) != uid_of(pod):
                await self._write_condition(pod)
                self._announced[key_of(pod)] = uid_of(pod)
                self.event(pod, announcement)
                log.info("pod evicted pod=%s %s", key_of(pod), " ".join(f"{k}={v}" for k, v in cause.items()))
            await self._client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
        self._evicted[uid_of(pod)] = None
        self._metrics.deleted(max(0.0, time.time() - due))

    async def _write_condition(self, pod: views.Pod) -> None:
        entry = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": self._texts.condition,
            "message": self._texts.message,
            "lastTransitionTime": now(),
        }
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [entry]}}
        await self._client.patch(PODS, name_of(pod), namespace_of(pod), body, kind="strategic", subresource="status")
