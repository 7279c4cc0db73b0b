"""The node's pods: a replica of podworker's stream, as protobuf only where somebody asks for it."""

from collections.abc import Callable, Iterator

import msgspec

from actors.frontdoor.framing import field
from actors.frontdoor.types import Entry
from actors.frontdoor.watchers import Watchers
from protocols.bus import Event, Op
from protocols.messages.pods import NodePod
from protocols.wire import pods_v1alpha1_pb2 as pb

POD = 2
"""Number of the pod in a watch's event."""


class NodePodFeed:
    """A sink of the bus. The process of `owner` may come and go: its next snapshot is told as a difference."""

    def __init__(self, watchers: Watchers) -> None:
        self.pods: dict[str, NodePod] = {}
        self.heard = False
        """The first whole picture has come."""
        self.watchers = watchers
        self.on_stale: Callable[[bool], None] = lambda synced: None
        self.on_change: Callable[[], None] = lambda: None
        self._encoded: dict[str, bytes] = {}

    def on_snapshot(self, items: list[tuple[str, NodePod]], mark: int) -> None:
        fresh = dict(items)
        self.heard = True
        for uid in self.pods.keys() - fresh.keys():
            self._change(uid, None)
        for uid, pod in items:
            self._change(uid, pod)

    def on_event(self, event: Event[NodePod]) -> None:
        self._change(event.key, None if event.op is Op.DELETE else event.value)

    def on_mark(self, mark: int) -> None:
        """This stream has no durable positions."""

    def on_synced(self, synced: bool) -> None:
        self.on_stale(synced)

    def uids(self) -> list[str]:
        return sorted(self.pods)

    def encoded(self, uid: str) -> bytes | None:
        """The pod in protobuf; None when it has gone."""
        pod = self.pods.get(uid)
        if pod is not None and uid not in self._encoded:
            self._encoded[uid] = to_protobuf(msgspec.json.decode(pod.pod))
        return self._encoded.get(uid)

    def added(self, uids: list[str]) -> Iterator[Entry]:
        """ADDED for each of these as it is when its turn comes, then the end of the beginning."""
        for uid in uids:
            if (pod := self.encoded(uid)) is not None:
                yield _entry(pb.ADDED, pod)
        yield Entry(0, pb.WatchPodsEvent(type=pb.INITIAL_SYNC_COMPLETE).SerializeToString())

    def _change(self, uid: str, new: NodePod | None) -> None:
        old = self.pods.pop(uid, None)
        if new is not None:
            self.pods[uid] = new
        if old == new:
            return
        self._encoded.pop(uid, None)
        self.on_change()
        if len(self.watchers):
            self.watchers.push(self._told(uid, old, new))

    def _told(self, uid: str, old: NodePod | None, new: NodePod | None) -> Entry:
        if new is None and old is not None:
            metadata = {"name": old.name, "namespace": old.namespace, "uid": uid}
            return _entry(pb.DELETED, to_protobuf({"metadata": metadata}))
        return _entry(pb.MODIFIED if old else pb.ADDED, self.encoded(uid) or b"")


def _entry(kind: pb.EventType, pod: bytes) -> Entry:
    return Entry(0, pb.WatchPodsEvent(type=kind).SerializeToString() + field(POD, pod))


def to_protobuf(pod: dict[str, object]) -> bytes:
    """Its tables are loaded with the first client: most nodes never see one."""
    from protocols.kube.protobuf.encode import encode_message
    from protocols.kube.protobuf.table import message_of

    return encode_message(message_of("v1", "Pod"), pod)
