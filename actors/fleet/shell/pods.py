"""The pods of the fleet: follow them in the API, step each when something about it changed, write what follows."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from actors.fleet.shell.nodes import reduced_node
from actors.fleet.shell.rejections import reporting
from actors.fleet.simulated.node import Node
from actors.fleet.simulated.pod import Pod, fingerprint, packed, take_over
from actors.fleet.simulated.step import Outcome, PodStep, StepInputs
from protocols.kinds import views
from protocols.kinds.table import NODES, PODS, RESOURCECLAIMS
from protocols.kube.errors import ApiError, suppress_status
from protocols.kube.meta import Object, fields_of
from protocols.kubeclient.client import ApiClient, find
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.kubeclient.workqueue import Key, WorkQueue
from protocols.lifecycle.devices.event_limiter import HealthEvent
from protocols.lifecycle.errors import PodInvalid
from protocols.lifecycle.pods.types import SECOND, PodStage
from protocols.lifecycle.status.conditions import PREEMPTED
from protocols.lifecycle.status.device_health import HEALTH as HEALTH_FIELD
from protocols.lifecycle.status.events import PodEvent, field_path

METADATA = ("name", "namespace", "uid", "resourceVersion")
"""Metadata of a pod that is retained: the fleet has ten thousand."""
WORKERS = 32
STEPS = 8
"""Steps in a row for one pod, each after a write or a read; then others have their turn."""
POD, HEALTH = "pod", "health"
"""Kinds of work: a step of the pod with a uid; device health of the node with a name."""
log = logging.getLogger("fleet")


class FleetPods:
    """The pods that are bound to nodes of the fleet."""

    def __init__(
        self,
        client: ApiClient,
        nodes: Mapping[str, Node],
        recorders: Sequence[EventRecorder],
        start_s: float,
    ) -> None:
        """`start_s`: what the start of a pod takes."""
        self._client = client
        self._nodes = nodes
        self._recorders = recorders
        self._start_s = start_s
        self.on_status: Callable[[Pod, Object], None] = lambda pod, status: None
        """Called with each status that the API took."""
        self._queue = WorkQueue(reporting(self._work), log, WORKERS)
        bound = InformerOptions(field_selector="spec.nodeName!=", keep=reduced_pod, on_doubt=self._doubt)
        self._informer = Informer(client, PODS, bound, self)
        self.pods: dict[str, Pod] = {}
        """By uid."""
        self.left = asyncio.Event()
        """Set whenever a pod has gone."""
        self.writes = 0
        """Statuses that were written."""

    async def run(self) -> None:
        """Follow pods and step them. Never returns."""
        await asyncio.gather(self._informer.run(), self._queue.run())

    def wake_node(self, node: Node) -> None:
        """Step all pods of a node, and look at the health of its devices."""
        self._queue.put((HEALTH, node.name), *((POD, uid) for uid in node.pods))

    def check_health(self, node: Node) -> None:
        """Let the pods of a node take what its plugins and drivers report now."""
        self._queue.put((HEALTH, node.name))

    def wake(self, pods: Iterable[Pod]) -> None:
        self._queue.put(*((POD, pod.uid) for pod in pods))

    # handler of the informer

    def on_add(self, obj: Object) -> None:
        node, uid = self._nodes.get(obj["node"]), obj["metadata"]["uid"]
        if node is None:
            del obj["packed"]
            return
        metadata = obj["metadata"]
        self.pods[uid] = Pod(uid, metadata["namespace"], metadata["name"], node)
        node.pods.add(uid)
        self._take(obj)

    def on_update(self, old: Object, new: Object) -> None:
        if new["metadata"]["uid"] in self.pods:
            self._take(new)
        else:
            self.on_add(new)

    def on_delete(self, obj: Object) -> None:
        self._forget(obj["metadata"]["uid"])

    def _doubt(self) -> None:
        """Take the next object of each pod whatever its version: that of a restored backup is lower."""
        for pod in self.pods.values():
            pod.version = 0

    def _take(self, obj: Object) -> None:
        """Take a newer object of a pod. The informer needs only its identity from then on."""
        uid, version = obj["metadata"]["uid"], int(obj["metadata"]["resourceVersion"])
        pod, content = self.pods[uid], obj.pop("packed")
        if version > pod.version:
            pod.version, pod.packed = version, content
            self._queue.put((POD, uid))

    def _forget(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            pod.node.pods.discard(uid)
            pod.node.release(uid)
            self._queue.cancel_timer((POD, uid))
            self.left.set()

    # work

    async def _work(self, key: Key) -> None:
        kind, name = key
        if kind == HEALTH:
            self._look_at_health(self._nodes[name])
        else:
            await self._step_pod(name)

    async def _step_pod(self, uid: str) -> None:
        claims: dict[str, views.ResourceClaim | None] = {}
        node_read = False
        for _ in range(STEPS):
            pod = self.pods.get(uid)
            if pod is None or pod.node.silent or not pod.node.object:
                return  # it is stepped again once its node registers, or is back
            outcome = self._step(pod, claims, node_read)
            if outcome is None:
                return
            if outcome.reads_node:
                await self._read_node(pod.node)
                node_read = True
            elif outcome.claims:
                wanted, space = outcome.claims, pod.namespace
                fetched = {name: await find(self._client, RESOURCECLAIMS, name, space) for name in wanted}
                claims |= cast("dict[str, views.ResourceClaim | None]", fetched)
            elif outcome.patch is not None:
                await self._patch(pod, outcome.patch)
            elif outcome.delete:
                await self.delete(pod)
                return
            else:
                return
        self._queue.put((POD, uid))

    async def _read_node(self, node: Node) -> None:
        """Take the Node object as it is now, unless it has gone. Raises ApiError."""
        if (found := await find(self._client, NODES, node.name)) is not None:
            node.shown(cast("views.Node", reduced_node(cast("views.Node", found))))

    def _step(
        self, pod: Pod, claims: Mapping[str, views.ResourceClaim | None], node_read: bool = False
    ) -> Outcome | None:
        """Advance the pod, record its events and set its timer. Return None for what is no pod."""
        inputs = StepInputs(time.time_ns(), time.monotonic(), self._start_s, dict(claims), node_read)
        try:
            self._take_over(pod)
            outcome = PodStep(pod, inputs).run()
        except PodInvalid as error:
            log.warning("pod is ignored uid=%s error=%s", pod.uid, error)
            return None
        for event in outcome.events:
            self._record(pod, event, field_path(event.container))
        if outcome.wake_ns:
            self._queue.put_later((POD, pod.uid), max(0.0, (outcome.wake_ns - inputs.now_ns) / SECOND))
        self._follow_node(pod.node)
        return outcome

    def _take_over(self, pod: Pod) -> None:
        """Take over a pod and, before it, all others of its node that are new to this process. Raises PodInvalid."""
        if pod.containers is not None:
            return
        for other in [self.pods[uid] for uid in pod.node.pods]:
            if other.containers is None:
                with suppress(PodInvalid):  # it is reported when it is stepped
                    take_over(other)
        if pod.containers is None:
            take_over(pod)

    def _follow_node(self, node: Node) -> None:
        """Let pods of the node take their device health, and end those that a critical pod preempts."""
        while node.health:
            uid, status = node.health.popitem()
            pod = self.pods.get(uid)
            if pod is not None and (status is not None or pod.stage is PodStage.SYNCING):
                pod.resources = status
                self._queue.put((POD, uid))
        while node.preempted:
            pod = self.pods.get(node.preempted.pop())
            if pod is not None and pod.ended_early is None:
                pod.ended_early = PREEMPTED
                self._record(pod, PodEvent("Warning", PREEMPTED.reason, PREEMPTED.message))
                self._queue.put((POD, pod.uid))
        now = time.monotonic()
        if (due := node.devices.next_due(now)) is not None:
            self._queue.put_later((HEALTH, node.name), max(0.0, due - now))

    def _look_at_health(self, node: Node) -> None:
        now = time.monotonic()
        if node.silent:
            return
        node.refresh(now)
        for event in node.devices.events(now):
            pod = self.pods.get(event.uid)
            if pod is not None:
                self._record(pod, event, node.devices.held(event.uid).field_path(event.container))
        self._follow_node(node)

    async def _patch(self, pod: Pod, body: Object) -> None:
        content = fingerprint(body)
        try:
            answer = await self._client.patch(
                PODS, pod.name, pod.namespace, body, kind="strategic", subresource="status"
            )
        except ApiError as error:
            await self._not_taken(pod, content, error)
            return
        self.writes += 1
        version = int(answer["metadata"]["resourceVersion"])
        if version > pod.version:
            pod.version, pod.packed = version, packed(cast("views.Pod", answer))
        pod.accepted = content, version
        self.on_status(pod, answer.get("status") or {})

    async def _not_taken(self, pod: Pod, content: int, error: ApiError) -> None:
        """Forget a pod that is gone; give a status up that the API rejects, until it changes. Else raise the error.

        `content`: fingerprint of the patch.
        """
        if error.code == 404 or (error.code == 409 and await self._is_gone(pod)):
            self._forget(pod.uid)
        elif error.code != 422:
            raise error
        elif HEALTH_FIELD in f"{error} {error.details}" and not pod.health_rejected:
            pod.health_rejected = True
        else:
            log.warning("pod status given up until it changes pod=%s/%s error=%s", pod.namespace, pod.name, error)
            pod.accepted = content, pod.version

    async def _is_gone(self, pod: Pod) -> bool:
        """Return True if there is no pod of that name, or one with another uid."""
        obj = await find(self._client, PODS, pod.name, pod.namespace)
        return obj is None or obj["metadata"]["uid"] != pod.uid

    async def delete(self, pod: Pod) -> None:
        """Delete a pod at once, unless it has gone. Raises ApiError."""
        with suppress_status(404, 409):
            await self._client.delete(PODS, pod.name, pod.namespace, grace=0, uid=pod.uid)

    def _record(self, pod: Pod, event: PodEvent | HealthEvent, path: str = "") -> None:
        """`path`: fieldPath of the container that it is about."""
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        reference: dict[str, Any] = {**PODS.type_meta, "metadata": metadata}
        recorder = self._recorders[pod.node.number % len(self._recorders)]
        limited, host = isinstance(event, HealthEvent), pod.node.name
        recorder.event(reference, event.type, event.reason, event.message, path, host=host, limited=limited)


def reduced_pod(pod: views.Pod) -> Object:
    """Reduce a pod to its identity, its node and itself, packed."""
    node = (pod.get("spec") or {}).get("nodeName") or ""
    return {"metadata": fields_of(pod.get("metadata") or {}, METADATA), "node": node, "packed": packed(pod)}
