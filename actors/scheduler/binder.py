"""What the scheduler writes: bindings, the PodScheduled condition, and the events that tell people."""

from protocols.kube.client import ApiClient, Object
from protocols.kube.events import EventRecorder
from protocols.kube.meta import condition
from protocols.kube.resources import PODS
from protocols.kube.times import now

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""No node is right as things are; or the attempt itself failed and says nothing about nodes."""


class Binder:
    """Methods raise ApiError and ApiAway."""

    def __init__(self, client: ApiClient, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def bind(self, pod: Object, node: str) -> None:
        """One write; the uid makes sure that it is this very pod."""
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.create(PODS, binding, metadata["namespace"], subresource="binding")
        text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
        self._recorder.event(pod, "Normal", "Scheduled", text)

    async def refuse(self, pod: Object, why: str, reason: str = UNSCHEDULABLE) -> None:
        """Say why it waits, in an event and in the pod's condition; nothing is written when it says so already."""
        self._recorder.event(pod, "Warning", "FailedScheduling", why)
        known = condition(pod, "PodScheduled") or {}
        if (known.get("status"), known.get("message")) == ("False", why):
            return
        entry = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why}
        since = known.get("lastTransitionTime") if known.get("status") == "False" else None
        entry["lastTransitionTime"] = str(since or now())
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [entry]}}
        await self._client.patch(
            PODS, metadata["name"], metadata["namespace"], body, kind="strategic", subresource="status"
        )
