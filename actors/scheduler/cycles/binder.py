"""Writes to the API about one pod: its binding, its PodScheduled condition and its events."""

from collections.abc import Iterable
from typing import cast

from actors.scheduler.model.views import node_name_of
from actors.scheduler.preemption.preemptor import nominated_node
from protocols.kinds import views
from protocols.kinds.table import NODES, PODS
from protocols.kube.meta import condition, name_of, namespace_of, split_key, uid_of
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder

REASON_UNSCHEDULABLE, REASON_ERROR = "Unschedulable", "SchedulerError"
"""No node fits now; or the attempt failed, which says nothing about nodes."""


class Binder:
    """Writes bindings, the PodScheduled condition and events. Methods raise ApiError and ApiAway."""

    def __init__(self, client: ApiClient, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def bind(self, pod: views.Pod, node: str, claims: Iterable[str]) -> None:
        """Bind the pod in one write; the uid guards against a new pod of the same name.

        `claims` are keys of those that must still be reserved for it. Our own API server checks that: a backup that was
        restored meanwhile may have the pod as it was, and not the reservations. Others ignore it.
        """
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
            "target": {**NODES.type_meta, "name": node},
        }
        names = ",".join(split_key(key)[1] for key in claims)
        query = {"reservedClaims": names} if names else {}
        await self._client.create(PODS, binding, metadata["namespace"], subresource="binding", query=query)
        text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
        self._recorder.event(pod, "Normal", "Scheduled", text)

    async def is_bound(self, pod: views.Pod) -> bool:
        """Return True if the API has the pod with a node; the watch may not show it yet."""
        stored = cast("views.Pod", await self._client.get(PODS, name_of(pod), namespace_of(pod)))
        return uid_of(stored) == uid_of(pod) and bool(node_name_of(stored))

    def report_preparing(self, pod: views.Pod, node: str) -> None:
        text = f"waiting for binding conditions for device on node {node}"
        self._recorder.event(pod, "Normal", "BindingConditionsPending", text)

    async def report_unschedulable(
        self, pod: views.Pod, message: str, reason: str = REASON_UNSCHEDULABLE, nominated: str | None = None
    ) -> None:
        """Report why the pod waits, by an event and its condition, and the node where it is going to get room.

        An unchanged condition is not written again. `nominated` is None to leave the nomination as it is.
        """
        self._recorder.event(pod, "Warning", "FailedScheduling", message)
        known = condition(pod, "PodScheduled") or {}
        nomination = {} if nominated in (None, nominated_node(pod)) else {"nominatedNodeName": nominated or None}
        if not nomination and (known.get("status"), known.get("message")) == ("False", message):
            return
        entry: views.PodCondition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        since = known.get("lastTransitionTime") if known.get("status") == "False" else None
        entry["lastTransitionTime"] = str(since or now())
        if generation := pod["metadata"].get("generation"):
            entry["observedGeneration"] = generation
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [entry], **nomination}}
        await self._client.patch(
            PODS, metadata["name"], metadata["namespace"], body, kind="strategic", subresource="status"
        )
