"""A simulated node and its pods under a clock that a test moves: steps pods as the fleet does, without an API."""

import uuid
from typing import Any, cast

import msgspec

from actors.fleet.profiles.expand import NodeTemplate, expand
from actors.fleet.profiles.profile import Profile
from actors.fleet.simulated.node import Node
from actors.fleet.simulated.pod import Pod, packed, take_over, unpacked
from actors.fleet.simulated.step import Outcome, PodStep, StepInputs
from protocols.kinds import views
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.shapes.registry import kind_shape
from protocols.lifecycle.pods.types import SECOND
from protocols.lifecycle.status.events import PodEvent

BEGAN_NS = 1_800_000_000 * SECOND
RESOURCE, DRIVER = "example.com/gpu", "gpu.example.com"
GROUP = {
    "name": "gpu",
    "count": 2,
    "plugins": [{"resource": RESOURCE, "devices": 4, "numa": 2}],
    "drivers": [{"driver": DRIVER, "slices": [{"devices": [{"name": "gpu-{i}", "repeat": 4}]}]}],
}


def templates(**group: Any) -> list[NodeTemplate]:
    return list(expand(msgspec.convert({"name": "test", "groups": [{**GROUP, **group}]}, Profile)))


def uid_of(name: str) -> str:
    """Return the uid of the pod of a name."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


class FleetWorld:
    """One node of a fleet; `pods` are stepped until nothing is left to do now."""

    def __init__(self, **group: Any) -> None:
        self.node = Node(templates(**group)[0], 0)
        self.node.object = self.node.new_object("2027-01-15T08:00:00Z", {})
        self.node.object["metadata"]["uid"] = "node-uid"
        self.now_ns = BEGAN_NS
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, Any] = {}
        self.deleted: list[str] = []
        self.events: list[tuple[str, PodEvent]] = []
        self.wakes: dict[str, int] = {}
        self.start_s = 0.0

    def add(
        self, name: str, *containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any
    ) -> Pod:
        """Bind a pod to the node and step it."""
        metadata = {"uid": uid_of(name), "name": name, "namespace": "default", "annotations": annotations or {}}
        named = [{"name": "a", "image": "x", **container} for container in containers or ({},)]
        spec = {"nodeName": self.node.name, "containers": named, **spec}
        return self.bind({"metadata": metadata, "spec": spec})

    def bind(self, obj: dict[str, Any]) -> Pod:
        metadata = obj["metadata"]
        pod = self.pods[metadata["uid"]] = Pod(metadata["uid"], metadata["namespace"], metadata["name"], self.node)
        self.node.pods.add(pod.uid)
        pod.packed = packed(cast("views.Pod", obj))
        self.settle()
        return pod

    def claim(self, name: str, pod: str, *devices: str) -> None:
        """Let a claim exist that is allocated to a pod."""
        results = [{"request": "r", "driver": DRIVER, "pool": self.node.name, "device": device} for device in devices]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": uid_of(pod)}]}
        self.claims[name] = {"metadata": {"name": name, "uid": f"{name}-uid"}, "status": status}

    def obj(self, pod: Pod) -> Any:
        return unpacked(pod.packed)

    def status(self, pod: Pod) -> Any:
        return self.obj(pod).get("status") or {}

    def change(self, pod: Pod, **metadata: Any) -> None:
        """Change the metadata of a pod, as its owner does."""
        obj = self.obj(pod)
        obj["metadata"] |= metadata
        pod.packed = packed(cast("views.Pod", obj))
        self.settle()

    def delete(self, pod: Pod, grace: int = 30) -> None:
        self.change(pod, deletionTimestamp="2027-01-15T08:00:00Z", deletionGracePeriodSeconds=grace)

    def advance(self, seconds: float) -> None:
        """Move the clock, stopping at every time for which a pod asked."""
        until = self.now_ns + int(seconds * SECOND)
        while due := [at for at in self.wakes.values() if self.now_ns < at <= until]:
            self.now_ns = min(due)
            self.settle()
        self.now_ns = until
        self.settle()

    def settle(self) -> None:
        for _ in range(50):
            written = [self._step(pod) for pod in list(self.pods.values())]
            if not any(written):
                return
        raise AssertionError("pods do not settle")

    def _step(self, pod: Pod, known: dict[str, Any] | None = None) -> bool:
        """Step one pod; return True if something was written."""
        if pod.containers is None:
            take_over(pod)
        inputs = StepInputs(self.now_ns, self.now_ns / SECOND, self.start_s, known or {}, node_read=True)
        outcome = PodStep(pod, inputs).run()
        self.events += [(pod.name, event) for event in outcome.events]
        self.wakes[pod.uid] = outcome.wake_ns
        self._share()
        if outcome.claims:
            return self._step(pod, {name: self.claims.get(name) for name in outcome.claims})
        return self._write(pod, outcome)

    def _share(self) -> None:
        self.node.refresh(self.now_ns / SECOND)
        while self.node.health:
            uid, status = self.node.health.popitem()
            if uid in self.pods:
                self.pods[uid].resources = status or self.pods[uid].resources

    def _write(self, pod: Pod, outcome: Outcome) -> bool:
        if outcome.patch is not None:
            patch = {"status": outcome.patch["status"]}
            obj = apply_strategic_patch(kind_shape("", "v1", "Pod"), self.obj(pod), patch)
            pod.packed = packed(cast("views.Pod", obj))
            return True
        if outcome.delete:
            self.deleted.append(pod.name)
            del self.pods[pod.uid]
            self.node.pods.discard(pod.uid)
        return outcome.delete
