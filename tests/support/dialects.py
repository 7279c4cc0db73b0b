"""How other runtimes stream events, as documented for them (they are not installed here): made of ours. Pure.

containerd-1.7: one queue of 1000 for all subscribers, filled while nobody reads, each event for one of them.
containerd-2: what nobody read is kept, and comes first at the next subscription; no sandbox status once it is gone.
Both: no event of a start that failed, STOPPED before STARTED of a process that ends at once, the deleted container is
in no status, no headers before the first event.
crio: one queue of 1000, statuses of every container of the pod's uid, stamps.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from protocols.wire import cri_pb2 as pb

QUEUE = 1000
Event = pb.ContainerEventResponse


@dataclass
class Dialect:
    name: str
    queue: "deque[Event]" = field(default_factory=lambda: deque(maxlen=None))
    """What nobody has read yet."""
    gone: set[str] = field(default_factory=set)
    """Sandboxes that were removed."""
    others: "dict[str, dict[str, list[pb.ContainerStatus]]]" = field(default_factory=dict)
    """crio: uid -> sandbox -> statuses."""

    @property
    def stamps(self) -> bool:
        return self.name in ("", "crio")

    @property
    def headers(self) -> bool:
        return self.name in ("", "crio")

    def take(self, event: Event) -> None:
        """An event of ours happened."""
        for told in self._of(event):
            if self.name in ("containerd-1.7", "crio") and len(self.queue) >= QUEUE:
                return
            self.queue.append(told)

    def _of(self, event: Event) -> Iterable[Event]:
        if self.name.startswith("containerd"):
            return self._containerd(event)
        return [self._crio(event)] if self.name == "crio" else [event]

    def _containerd(self, event: Event) -> "list[Event]":
        kind, id_ = event.container_event_type, event.container_id
        mine = next((item for item in event.containers_statuses if item.id == id_), None)
        if kind == pb.CONTAINER_STOPPED_EVENT and mine is not None and mine.reason == "StartError":
            return []
        if kind == pb.CONTAINER_DELETED_EVENT:
            kept = [item for item in event.containers_statuses if item.id != id_]
            del event.containers_statuses[:]
            event.containers_statuses.extend(kept)
            self.gone |= {id_}
        if event.pod_sandbox_status.id in self.gone and id_ != event.pod_sandbox_status.id:
            event.ClearField("pod_sandbox_status")
        if kind == pb.CONTAINER_STOPPED_EVENT and self.queue and self._is_start_of(self.queue[-1], id_):
            started = self.queue.pop()
            return [event, started]
        return [event]

    @staticmethod
    def _is_start_of(event: Event, id_: str) -> bool:
        return event.container_id == id_ and event.container_event_type == pb.CONTAINER_STARTED_EVENT

    def _crio(self, event: Event) -> Event:
        sandbox = event.pod_sandbox_status
        pod = self.others.setdefault(sandbox.metadata.uid, {})
        deleted = event.container_id if event.container_event_type == pb.CONTAINER_DELETED_EVENT else ""
        pod[sandbox.id] = [item for item in event.containers_statuses if item.id != deleted]
        if deleted == sandbox.id:
            del pod[sandbox.id]
        statuses = [status for held in pod.values() for status in held]
        del event.containers_statuses[:]
        event.containers_statuses.extend(statuses)
        return event
