"""The stream of the node's pods: what a follower folds is what the manager was told, with the newest status."""

from typing import Any, cast

import msgspec

from actors.podworker.pods.node_pods import NodePods
from protocols.bus import Bus, Op
from protocols.kinds import views
from protocols.lifecycle.pods.types import PodSpec
from protocols.messages.podworker import NODE_PODS, NodePod


class FakeBus:
    """A stream that remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[Op, str, Any]] = []
        self.source: Any = None

    def own(self, name: str, source: Any, ring: int = 0) -> "FakeBus":
        assert name == NODE_PODS
        self.source = source
        return self

    def publish(self, op: Op, key: str, value: Any, mark: int = 0) -> None:
        self.told.append((op, key, value))


class FakeManager:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_add(self, obj: Any) -> None:
        self.calls.append("add")

    def on_update(self, old: Any, new: Any) -> None:
        self.calls.append("update")

    def on_delete(self, obj: Any) -> None:
        self.calls.append("delete")

    def has_worker(self, uid: str) -> bool:
        return uid == "u1"

    def republish(self, uid: str) -> None:
        self.calls.append(f"republish {uid}")


def pod(uid: str, version: str = "1", **status: Any) -> views.Pod:
    metadata = {"uid": uid, "name": uid, "namespace": "default", "resourceVersion": version}
    return cast("views.Pod", {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": status})


def shown(view: NodePod) -> Any:
    return msgspec.json.decode(view.pod)


def test_nothing_is_published_before_the_first_full_list() -> None:
    bus, manager = FakeBus(), FakeManager()
    pods = NodePods(manager)
    pods.on_add(pod("u1", phase="Pending"))
    assert bus.told == []
    pods.begin(cast("Bus", bus))
    [item] = bus.source.snapshot()
    assert (item.key, item.value.containers) == ("u1", ("main",))
    assert shown(item.value)["status"] == {"phase": "Pending"}
    assert shown(item.value)["kind"] == "Pod"


def test_a_status_shows_before_the_api_took_it_and_conditions_of_others_stay() -> None:
    bus, pods = FakeBus(), NodePods(FakeManager())
    pods.begin(cast("Bus", bus))
    gate = {"type": "example.com/gate", "status": "True"}
    first = pod("u1", conditions=[gate])
    pods.on_add(first)
    ready: views.PodCondition = {"type": "Ready", "status": "True"}
    pods.on_status(PodSpec(uid="u1", name="u1", namespace="default"), {"phase": "Running", "conditions": [ready]})
    assert shown(bus.told[-1][2])["status"] == {"phase": "Running", "conditions": [ready, gate]}
    count = len(bus.told)
    pods.on_update(first, first)
    assert len(bus.told) == count, "told again though nothing changed"
    pods.on_delete(first)
    assert bus.told[-1][:2] == (Op.DELETE, "u1")
    pods.on_status(PodSpec(uid="u1", name="u1", namespace="default"), {"phase": "Failed"})
    assert bus.told[-1][:2] == (Op.DELETE, "u1"), "a pod that has gone came back"


def test_the_manager_hears_everything_first() -> None:
    manager = FakeManager()
    pods = NodePods(manager)
    pods.on_add(pod("u1"))
    pods.on_update(pod("u1"), pod("u1", "2"))
    pods.on_delete(pod("u1"))
    pods.republish("u1")
    assert manager.calls == ["add", "update", "delete", "republish u1"]
    assert pods.has_worker("u1")
