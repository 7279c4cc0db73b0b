"""How other runtimes stream events, as those of 2026 were seen to (containerd 1.7.34 and 2.3.4, CRI-O 1.36.3): made of
ours. Pure.

containerd-1.7: one queue of 1000 for all subscribers, filled while nobody reads, each event for one of them. That a
reader left is noticed by the next event, which goes with him, whoever else reads.
containerd-2: what nobody read is kept, and comes first at the next subscription, but for the first ones after the last
reader left, by which that is noticed.
Both: no event of a start that failed, STOPPED before STARTED of a process that ends at once, the deleted container is
in no status, and once a sandbox is gone its status is missing (1.7: also in the event that tells of it).
crio: one queue of 1000 until somebody subscribes for the first time, from then on nothing is kept for nobody; statuses
of every container of the pod's uid; stamps; no word of a sandbox's removal, nor of what is removed with it.
None sends headers before the first event.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from protocols.wire import cri_pb2 as pb

QUEUE = 1000
UNNOTICED = {"containerd-1.7": 1, "containerd-2": 2}
"""Events that are lost with a reader who left (containerd 2: one at least, each further one by chance)."""
Event = pb.ContainerEventResponse


@dataclass
class Dialect:
    name: str
    queue: "deque[Event]" = field(default_factory=lambda: deque(maxlen=None))
    """What nobody has read yet."""
    gone: set[str] = field(default_factory=set)
    """Sandboxes that were removed."""
    readers: int = 0
    left: int = 0
    """Events that go with readers who left, which the runtime has not noticed yet."""
    begun: bool = False
    """Somebody has subscribed once."""
    others: "dict[str, dict[str, list[pb.ContainerStatus]]]" = field(default_factory=dict)
    """crio: uid -> sandbox -> statuses."""

    @property
    def stamps(self) -> bool:
        return self.name in ("", "crio")

    @property
    def headers(self) -> bool:
        return self.name == ""

    def reads(self) -> None:
        self.readers += 1
        self.begun = True

    def leaves(self) -> None:
        self.readers -= 1
        self.left += UNNOTICED.get(self.name, 0)

    def _lost(self) -> bool:
        """Whether the next event reaches nobody."""
        noticed, self.left = self.left, max(0, self.left - 1)
        if self.name == "containerd-1.7":
            return noticed > 0
        if self.name == "containerd-2":
            return noticed > 0 and not self.readers
        return self.name == "crio" and self.begun and not self.readers

    def take(self, event: Event) -> None:
        """An event of ours happened."""
        for told in self._of(event):
            if self._lost():
                continue
            if self.name in ("containerd-1.7", "crio") and len(self.queue) >= QUEUE:
                return
            self.queue.append(told)

    def _of(self, event: Event) -> Iterable[Event]:
        if self.name.startswith("containerd"):
            return self._containerd(event)
        if self.name == "crio":
            told = self._crio(event)
            return [] if self._removed_with_its_sandbox(event) else [told]
        return [event]

    @staticmethod
    def _removed_with_its_sandbox(event: Event) -> bool:
        deleted = event.container_event_type == pb.CONTAINER_DELETED_EVENT
        return deleted and event.pod_sandbox_status.state == pb.SANDBOX_NOTREADY

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
        own = id_ == event.pod_sandbox_status.id and self.name == "containerd-2"
        if event.pod_sandbox_status.id in self.gone and not own:
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
