"""Disruption controller: keep the status of PodDisruptionBudgets, which evictions rest on."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

from actors.controllers.policies import disruption
from actors.controllers.policies.scales import FindKind, Scales
from protocols.kinds.table import PODDISRUPTIONBUDGETS
from protocols.kube.errors import ApiError, suppress_status
from protocols.kube.meta import Object, key_of, labels_of, name_of, namespace_of, version_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import Informer, ResourceEventHandler
from protocols.kubeclient.workqueue import Key, WorkQueue

BUDGET = "budget"
INTERVAL_S = 0.2
"""Shortest time between two passes over a budget."""
UNSYNCED_S = 1.0
UNMANAGED = (
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB cannot "
    "be calculated correctly, which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


class DisruptionController(ResourceEventHandler):
    """Handle budgets; `pods` returns the informer of pods, whose events `pod_handler` gets."""

    def __init__(
        self,
        client: ApiClient,
        recorder: EventRecorder,
        log: logging.Logger,
        find: FindKind,
        pods: Callable[[], Informer],
    ) -> None:
        self._client, self._recorder, self._find, self._pods = client, recorder, find, pods
        self._work = WorkQueue(self._sync, log)
        self._keys: dict[str, set[str]] = {}
        """Namespace -> keys of its budgets."""
        self._passed: dict[str, float] = {}
        self.items: Mapping[str, Object] = {}
        """The budgets, by key."""
        self.pod_handler = PodHandler(self._pod_changed)

    async def run(self) -> None:
        await self._work.run()

    def on_add(self, budget: Object) -> None:
        self._keys.setdefault(namespace_of(budget), set()).add(key_of(budget))
        self._work.put((BUDGET, key_of(budget)))

    def on_delete(self, budget: Object) -> None:
        keys = self._keys.get(namespace_of(budget), set())
        keys.discard(key_of(budget))
        if not keys:
            self._keys.pop(namespace_of(budget), None)
        self._passed.pop(key_of(budget), None)
        self._work.cancel_timer((BUDGET, key_of(budget)))

    def _pod_changed(self, *versions: Object) -> None:
        for key in self._keys.get(namespace_of(versions[-1]), ()):
            budget = self.items.get(key)
            if budget is not None and any(disruption.selects(budget, pod) for pod in versions):
                self._work.put((BUDGET, key))

    async def _sync(self, work: Key) -> None:
        key, now = work[1], time.monotonic()
        budget, pods = self.items.get(key), self._pods()
        if budget is None:
            return
        if (left := self._passed.get(key, -INTERVAL_S) + INTERVAL_S - now) > 0:
            self._work.put_later(work, left)
            return
        if not pods.synced:
            self._work.put_later(work, UNSYNCED_S)
            return
        self._passed[key] = now
        status, fault = await self._status(budget, self._matching(budget))
        await self._publish(budget, status)
        if fault is not None:
            raise fault
        if due := disruption.next_check(status.get("disruptedPods") or {}):
            self._work.put_later(work, max(INTERVAL_S, due - time.time() + 1.0))

    def _matching(self, budget: Object) -> list[Object]:
        selector = disruption.selector_of(budget)
        if selector is None:
            return []
        matches = selector.matcher()
        return [pod for pod in self.pod_handler.within(namespace_of(budget)) if matches(labels_of(pod))]

    async def _status(self, budget: Object, pods: list[Object]) -> tuple[Object, ApiError | None]:
        """Return the status to publish; one that allows no eviction if the expected pods are unknown.

        The error is for another attempt, if the API did not show a scale.
        """
        now = time.time()
        if not pods:
            self._recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected = await self._expected(budget, pods)
        except (disruption.ScaleUnknown, ApiError) as fault:
            text = f"Failed to calculate the number of expected pods: {fault}"
            self._recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            status = disruption.failed_status(budget, pods, str(fault), now)
            return status, fault if isinstance(fault, ApiError) else None
        return disruption.status_of(budget, pods, expected, now), None

    async def _expected(self, budget: Object, pods: list[Object]) -> disruption.Expectation:
        scale = 0
        if disruption.needs_scale(budget):
            scale, unmanaged = await Scales(self._client, self._find).total(pods)
            if unmanaged:
                self._recorder.event(budget, "Warning", "UnmanagedPods", UNMANAGED)
        return disruption.expectation(budget, len(pods), scale)

    async def _publish(self, budget: Object, status: Object) -> None:
        """Write a changed status at the revision it was calculated for. Raises ApiError after a conflict."""
        old: dict[str, Any] = budget.get("status") or {}
        if status == old:
            return
        held, waiting = old.get("disruptedPods") or {}, status.get("disruptedPods") or {}
        patch = {**status, "disruptedPods": {**{name: None for name in held if name not in waiting}, **waiting}}
        body = {"metadata": {"resourceVersion": version_of(budget)}, "status": patch}
        with suppress_status(404):
            await self._client.patch(
                PODDISRUPTIONBUDGETS, name_of(budget), namespace_of(budget), body, subresource="status"
            )


class PodHandler:
    """Index pods by namespace, and report those that appear, change or go, with their earlier version."""

    def __init__(self, changed: Callable[..., None]) -> None:
        self._changed = changed
        self._by_namespace: defaultdict[str, dict[str, Object]] = defaultdict(dict)
        """Pods by name; a pass over a budget reads those of one namespace."""

    def within(self, namespace: str) -> Collection[Object]:
        return self._by_namespace.get(namespace, {}).values()

    def on_add(self, obj: Object) -> None:
        self._by_namespace[namespace_of(obj)][name_of(obj)] = obj
        self._changed(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._by_namespace[namespace_of(new)][name_of(new)] = new
        self._changed(old, new)

    def on_delete(self, obj: Object) -> None:
        pods = self._by_namespace[namespace_of(obj)]
        pods.pop(name_of(obj), None)
        if not pods:
            del self._by_namespace[namespace_of(obj)]
        self._changed(obj)
