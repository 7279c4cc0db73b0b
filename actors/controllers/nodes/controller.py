"""Node lifecycle controller: report lost nodes, taint nodes by their conditions, and mark the pods of lost ones.

| a node | gets |
|---|---|
| did not renew its lease for the grace period | its agent's conditions Unknown |
| has a bad condition, or is unschedulable | its NoSchedule taints |
| is not Ready | NoExecute, as fast as NodeDisruption allows; its pods Ready=False |
| is Ready again | none of these taints |

Renewals are timed by when they were observed on this machine's monotonic clock, not by the time in the lease, so clock
skew between machines does not matter. Source: pkg/controller/nodelifecycle of Kubernetes 1.36.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from actors.controllers.common.informers import ChangeHandler
from actors.controllers.nodes.disruption import EXCLUDED_LABEL, NodeDisruption, zone_of
from actors.controllers.nodes.pod_eviction import TaintEvictionController
from actors.controllers.nodes.taints import desired_taints, execute_key, has_execute_taint, is_ready, taints_of
from protocols.kinds import views
from protocols.kinds.table import LEASES, NODES, PODS
from protocols.kube.errors import ApiAway, ApiError, suppress_status
from protocols.kube.meta import Object, condition, labels_of, name_of, namespace_of, uid_of, version_of
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.workqueue import Key, WorkQueue
from protocols.process.tasks import failed

CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that a node's agent reports, all of which are Unknown without it."""


NODE = "node"
LEASE_NAMESPACE = "kube-node-lease"
CHECKS_PER_GRACE = 10


class NodeLeases(msgspec.Struct):
    """Last renewals of all nodes; times are monotonic seconds."""

    grace_s: float
    seen: dict[str, tuple[str, float]] = msgspec.field(default_factory=dict)
    """Node -> (renewTime as written, when it was first observed here)."""

    def renewed(self, node: str, written: str, at: float) -> None:
        if self.seen.get(node, ("", 0.0))[0] != written:
            self.seen[node] = (written, at)

    def known(self, node: str, at: float) -> None:
        """Give a node without a lease the grace period to write one."""
        self.seen.setdefault(node, ("", at))

    def forget(self, node: str) -> None:
        self.seen.pop(node, None)

    def extend(self, at: float) -> None:
        """Give all nodes the grace period again: while the API was away, none could renew its lease."""
        self.seen = {node: (written, at) for node, (written, _) in self.seen.items()}

    def lost(self, at: float) -> list[str]:
        return [node for node in self.seen if self.is_lost(node, at)]

    def is_lost(self, node: str, at: float) -> bool:
        """Return False also for a node that is gone."""
        return at - self.seen.get(node, ("", at))[1] >= self.grace_s


def unknown_patch(node: views.Node) -> Object | None:
    """Return the strategic merge patch that sets the agent's conditions to Unknown; None when they already are."""
    entries = [entry for kind in CONDITIONS if (entry := _unknown(kind, condition(node, kind)))]
    return {"status": {"conditions": entries}} if entries else None


def _unknown(kind: str, known: views.Condition | None) -> Object | None:
    if known is not None and known.get("status") == "Unknown":
        return None
    reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
    if known is None:
        reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
    return {"type": kind, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": now()}


class NodeController:
    """Handle nodes; the attribute `leases` is the handler for their leases."""

    def __init__(
        self,
        client: ApiClient,
        recorder: EventRecorder,
        log: logging.Logger,
        grace_s: float,
        evictor: TaintEvictionController,
    ) -> None:
        """A node is lost after `grace_s` seconds without a renewed lease."""
        self._client, self._recorder, self._log = client, recorder, log
        self._grace_s, self._evictor = grace_s, evictor
        self.nodes: Mapping[str, views.Node] = {}
        """The informer's store, set when it exists."""
        self._leases = NodeLeases(grace_s)
        self.watching: Callable[[], bool] = lambda: True
        """Return False while the informer of leases has no connection, or no event of it yet."""
        self._api_failed = False
        self._disruption = NodeDisruption()
        self._work = WorkQueue(self._step, log)
        self._waiting: set[str] = set()
        """Nodes whose NoExecute taint waits for the rate limit."""
        self._marked: dict[str, str] = {}
        """Node -> transition time of the Ready condition for which its pods were marked not ready."""
        self.leases = ChangeHandler(self._renewed, lambda lease: None)

    def on_add(self, obj: views.Node) -> None:
        self._leases.known(name_of(obj), self._now())
        self._changed(None, obj)

    def on_update(self, old: views.Node, new: views.Node) -> None:
        """Sync taints. Only leases, not updates, prove that a node's own agent is running."""
        self._changed(old, new)

    def on_delete(self, obj: views.Node) -> None:
        name = name_of(obj)
        self._leases.forget(name)
        with self._following_suspension():
            self._disruption.forget(name)
        self._waiting.discard(name)
        self._marked.pop(name, None)
        self._evictor.node_changed(obj, None)

    def _changed(self, old: views.Node | None, new: views.Node) -> None:
        excluded = EXCLUDED_LABEL in labels_of(new)
        with self._following_suspension():
            self._disruption.observe(name_of(new), zone_of(new), is_ready(new), excluded=excluded)
        self._work.put((NODE, name_of(new)))
        self._evictor.node_changed(old, new)

    @contextmanager
    def _following_suspension(self) -> Iterator[None]:
        """All nodes gain or lose their NoExecute taint with a change that suspends evictions, or resumes them."""
        suspended = self._disruption.suspended
        yield
        if suspended != self._disruption.suspended:
            self.enqueue_all()

    def enqueue_all(self) -> None:
        """Reconcile all nodes. Call it when pods are listed, too: until then a lost node has none to mark."""
        self._work.put(*((NODE, name) for name in self.nodes))

    async def run(self) -> None:
        await asyncio.gather(self._work.run(), self._check_leases())

    async def _check_leases(self) -> None:
        while True:
            await asyncio.sleep(self._grace_s / CHECKS_PER_GRACE)
            if not self.watching():
                self._leases.extend(self._now())
            lost = self._leases.lost(self._now())
            self._api_failed &= bool(lost)
            for name in lost:
                if self._leases.is_lost(name, self._now()):  # no lease came while others were reported
                    await self._report_lost(name)
                if self._api_failed:
                    break
            self._work.put(*((NODE, name) for name in self._waiting))

    async def _report_lost(self, name: str) -> None:
        """Report a lost node, unless the last attempt failed at the API: then no node could renew its lease."""
        failed_before, self._api_failed = self._api_failed, False
        try:
            if failed_before:
                await self._client.get(LEASES, name, LEASE_NAMESPACE)
            else:
                await self._write_unknown(name)
        except (ApiAway, ApiError) as error:
            self._api_failed = not (isinstance(error, ApiError) and error.code < 500)
            self._log.info("node status not written node=%s error=%s", name, error)
        except Exception as error:
            failed("node lease", name, error)
        if failed_before and not self._api_failed:
            self._leases.extend(self._now())

    async def _write_unknown(self, name: str) -> None:
        node = self.nodes.get(name)
        patch = unknown_patch(node) if node else None
        if patch is not None:
            await self._client.patch(NODES, name, "", patch, kind="strategic", subresource="status")
            grace = self._grace_s
            self._log.warning("node lease expired, set its conditions to Unknown node=%s grace=%gs", name, grace)

    async def _step(self, key: Key) -> None:
        node = self.nodes.get(key[1])
        if node is None:
            return
        await self._sync_taints(node)
        if is_ready(node):
            self._marked.pop(key[1], None)
        elif condition(node, "Ready"):
            await self._mark_pods(node)

    async def _sync_taints(self, node: views.Node) -> None:
        desired = desired_taints(node, self._execute_key(node))
        if desired == taints_of(node):
            return
        # The list of taints is replaced as a whole: the version keeps those that others add meanwhile.
        body = {"metadata": {"uid": uid_of(node), "resourceVersion": version_of(node)}, "spec": {"taints": desired}}
        try:
            await self._client.patch(NODES, name_of(node), "", body)
        except ApiError as error:
            if error.code == 404:
                return
            raise
        keys = ",".join(f"{taint.get('key')}:{taint.get('effect')}" for taint in desired)
        self._log.info("node taints changed node=%s taints=%s", name_of(node), keys or "none")

    def _execute_key(self, node: views.Node) -> str:
        """Return the key of the NoExecute taint that the node must have now; empty for none."""
        name, key = name_of(node), execute_key(node)
        self._waiting.discard(name)
        if not key or self._disruption.suspended:
            return ""
        if has_execute_taint(node) or self._disruption.take(name, self._now()):
            return key
        self._waiting.add(name)
        return ""

    async def _mark_pods(self, node: views.Node) -> None:
        """Set Ready to False on the pods of a lost node, which cannot do so itself."""
        name, since = name_of(node), str((condition(node, "Ready") or {}).get("lastTransitionTime") or "")
        if self._marked.get(name) == since or not self._evictor.pods_on(name):
            return
        self._recorder.event(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        pods = await self._client.list(PODS, field_selector=f"spec.nodeName={name}")
        for pod in pods.get("items") or ():
            if (condition(pod, "Ready") or {}).get("status") == "True":
                await self._mark_pod(pod)
        self._marked[name] = since

    async def _mark_pod(self, pod: views.Pod) -> None:
        entry = {"type": "Ready", "status": "False", "lastTransitionTime": now()}
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [entry]}}
        with suppress_status(404, 409):
            await self._client.patch(
                PODS, name_of(pod), namespace_of(pod), body, kind="strategic", subresource="status"
            )
        self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")

    def _renewed(self, lease: views.Lease) -> None:
        if name_of(lease) in self.nodes:
            self._leases.renewed(name_of(lease), lease.get("spec", {}).get("renewTime") or "", self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
