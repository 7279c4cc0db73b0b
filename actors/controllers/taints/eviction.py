"""Device taint eviction controller: delete pods when they no longer tolerate a NoExecute taint of their devices.

A pod's deadline is computed again whenever a pod, claim, slice or rule changes, and once more before the deletion;
timers only schedule the next check.
"""

import logging
import time
from collections.abc import Iterable, Mapping

from actors.controllers.common.pod_eviction import EvictionMetrics, EvictionTexts, PodEvictor
from actors.controllers.taints.deadlines import Deadline, EvictionDeadlines, selects
from actors.controllers.taints.device_users import DeviceUsers, runs
from actors.controllers.taints.rule_status import RuleStatusWriter
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.decode import rule_of
from protocols.dra.patching.types import Known
from protocols.dra.tracker.faults import SliceChange
from protocols.dra.types import DeviceId, ObjectUnreadable, PoolId, TaintRule
from protocols.kinds import views
from protocols.kube.meta import key_of, name_of
from protocols.kube.taints import Taint
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.workqueue import Key, WorkQueue

POD, RULE = "pod", "rule"
MARKED, CANCELLED = "Marking for deletion", "Cancelling deletion"
TEXTS = EvictionTexts(
    reason="DeviceTaintManagerEviction",
    condition="DeletionByDeviceTaintManager",
    message="Device Taint manager: deleting due to NoExecute taint",
)


class EvictionController:
    """Evict pods. Input are pods, claims, rules and slices (as patched, without the taints of rules)."""

    def __init__(
        self, client: ApiClient, recorder: EventRecorder, metrics: EvictionMetrics, log: logging.Logger
    ) -> None:
        self._log = log
        self.users = DeviceUsers()
        self.catalog = Catalog()
        self._rules: dict[str, TaintRule] = {}
        self._deadlines = EvictionDeadlines(self.catalog, self._rules)
        self._work = WorkQueue(self._step, log)
        self._pending: dict[str, Deadline] = {}
        """Pod key -> eviction deadline."""
        self._evictor = PodEvictor(client, recorder, metrics, TEXTS)
        self._rule_status = RuleStatusWriter(client, self.users, self._deadlines, self._pending)

    def use_patches(self, patches: Mapping[str, Known]) -> None:
        """Name these patches as sources of taints."""
        self._deadlines.patches = patches

    async def run(self) -> None:
        await self._work.run()

    # what changed

    def pod_changed(self, pod: views.Pod) -> None:
        if runs(pod) or key_of(pod) in self._pending:
            self._work.put((POD, key_of(pod)))

    def pod_gone(self, pod: views.Pod) -> None:
        self._work.cancel_timer((POD, key_of(pod)))
        self._settle(key_of(pod), None)
        self._evictor.gone(pod)

    def claim_changed(self, claim: views.ResourceClaim) -> None:
        self._enqueue(self.users.put_claim(claim))

    def claim_gone(self, claim: views.ResourceClaim) -> None:
        self._enqueue(self.users.drop_claim(claim))

    def slices_changed(self, changes: list[SliceChange]) -> None:
        pools = {each.pool_id for change in changes for each in change if each is not None}
        before = self._tainted(pools)
        for old, new in changes:
            self.catalog.change(old, new)
        for device, _ in before ^ self._tainted(pools):
            self._enqueue(self.users.of_device(device))

    def _tainted(self, pools: Iterable[PoolId]) -> set[tuple[DeviceId, tuple[Taint, ...]]]:
        """Return the tainted devices of pools with their taints, so that a change of either is a difference.

        Only slices of a pool's newest generation count: each slice may bring in, or hide, devices of others.
        """
        known = (pool for id in pools if (pool := self.catalog.pool(id)) is not None)
        return {(device.id, device.spec.taints) for pool in known for device in pool.devices if device.spec.taints}

    def classes_changed(self) -> None:
        """Ignore device classes: their effect arrives as patched slices."""

    def rule_changed(self, obj: views.DeviceTaintRule) -> None:
        try:
            rule = rule_of(obj)
        except ObjectUnreadable as why:
            self._log.warning("device taint rule ignored error=%s", why)
            return self.rule_gone(obj)
        old = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        self._rule_status.known[rule.name] = rule, obj
        if old is None or (old.taint, old.selector) != (rule.taint, rule.selector):
            self._enqueue_users(old, rule)
        return self._work.put((RULE, rule.name))

    def rule_gone(self, obj: views.DeviceTaintRule) -> None:
        old = self._rules.pop(name_of(obj), None)
        self._rule_status.forget(name_of(obj))
        self._work.cancel_timer((RULE, name_of(obj)))
        self._enqueue_users(old)

    def _enqueue_users(self, *rules: TaintRule | None) -> None:
        for device, claims in self.users.devices():
            if any(rule is not None and selects(rule, device) for rule in rules):
                self._enqueue(self.users.of_claims(claims))

    def _enqueue(self, pods: Iterable[str]) -> None:
        self._work.put(*((POD, key) for key in pods))

    # what to do

    async def _step(self, key: Key) -> None:
        kind, name = key
        self._work.cancel_timer(key)
        if kind == RULE:
            if wait := await self._rule_status.write_if_due(name):
                self._work.put_later(key, wait)
            return None
        pod = self.users.pods.get(name)
        deadline = self._deadline(pod) if pod is not None else None
        self._settle(name, deadline, pod)
        if deadline is None or pod is None:
            return None
        left = deadline.at - time.time()
        if left > 0:
            return self._work.put_later(key, left)
        return await self._evict(pod, deadline)

    def _deadline(self, pod: views.Pod) -> Deadline | None:
        if not runs(pod) or self._evictor.is_leaving(pod):
            return None
        return self._deadlines.deadline(pod, self.users.claims_of(pod), time.time())

    def _settle(self, key: str, deadline: Deadline | None, pod: views.Pod | None = None) -> None:
        """Record the pod's new deadline and enqueue the rules that start or stop evicting it."""
        old = self._pending.pop(key, None)
        if deadline is not None:
            self._pending[key] = deadline
        else:
            self._evictor.forget(key)
        stays = pod is not None and not self._evictor.is_leaving(pod)
        if deadline is None and old is not None and pod is not None and stays:
            self._evictor.event(pod, CANCELLED)
        before, after = (each.rules if each else frozenset() for each in (old, deadline))
        self._work.put(*((RULE, rule) for rule in before ^ after))

    async def _evict(self, pod: views.Pod, deadline: Deadline) -> None:
        await self._evictor.evict(pod, deadline.at, MARKED, deadline.cause)
        self._rule_status.evicted(deadline.rules)
        self._settle(key_of(pod), None, pod)
