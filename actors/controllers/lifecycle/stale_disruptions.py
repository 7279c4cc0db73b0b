"""Reset the condition DisruptionTarget of pods whose eviction was approved and which nobody deleted.

As in upstream's disruption controller, this needs no PodDisruptionBudget.
"""

import logging
import time
from collections.abc import Mapping

from protocols.kinds.table import PODS
from protocols.kube import times
from protocols.kube.errors import suppress_status
from protocols.kube.meta import Object, key_of, name_of, namespace_of, terminating, uid_of
from protocols.kube.objects import items
from protocols.kube.pods import is_finished
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.workqueue import Key, WorkQueue

TARGET, BY_KUBELET = "DisruptionTarget", "TerminationByKubelet"
TIMEOUT_S = 120.0
STALE = "stale-condition"


def disruption_targets(pod: Object) -> list[Object]:
    """Return the conditions DisruptionTarget, of which there is one at most."""
    return [condition for condition in items(pod, "status", "conditions") if condition.get("type") == TARGET]


def stale_in(pod: Object, now: float) -> float | None:
    """Return the seconds until DisruptionTarget of a pod that nobody deletes is stale; None if it cannot be."""
    held = next((condition for condition in disruption_targets(pod) if condition.get("status") == "True"), None)
    if held is None or terminating(pod) or is_finished(pod) or held.get("reason") == BY_KUBELET:
        return None
    return max(0.0, times.time_or(str(held.get("lastTransitionTime"))) + TIMEOUT_S - now)


class StaleDisruptionController:
    """Handles events of pods; `pods` is the store of their informer."""

    def __init__(self, client: ApiClient, log: logging.Logger) -> None:
        self._client = client
        self._work = WorkQueue(self._reset, log)
        self.pods: Mapping[str, Object] = {}

    async def run(self) -> None:
        await self._work.run()

    def pod_changed(self, pod: Object) -> None:
        if (left := stale_in(pod, time.time())) is not None:
            self._work.put_later((STALE, key_of(pod)), left)

    def pod_gone(self, pod: Object) -> None:
        self._work.cancel_timer((STALE, key_of(pod)))

    async def _reset(self, work: Key) -> None:
        pod = self.pods.get(work[1])
        left = None if pod is None else stale_in(pod, time.time())
        if pod is None or left is None:
            return
        if left > 0:
            self._work.put_later(work, left)
            return
        condition = {"type": TARGET, "status": "False", "lastTransitionTime": times.now()}
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
        where = (PODS, name_of(pod), namespace_of(pod))
        with suppress_status(404, 409):
            await self._client.patch(*where, body, kind="strategic", subresource="status")
