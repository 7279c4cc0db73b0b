"""A monitoring agent that keeps one view of the node's devices through every crash and checks each event."""

import threading
import time
from typing import Any

import grpc

from protocols.wire import podresources_v1_pb2 as wire
from tests.support.plane import Plane, until
from tests.support.stubs import podresources_v1_pb2_grpc as stubs

OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
ADDED, DELETED, UPDATED, BOOKMARK = 0, 1, 2, 3
Holdings = frozenset[tuple[str, str]]
"""(resource, device id) pairs."""


class PodWatch:
    """Snapshot first, then resumes by sequence; `problems` collects every broken promise and what broke it."""

    def __init__(self, plane: Plane) -> None:
        self._socket = f"unix:{plane.root}/kubelet/pod-resources/kubelet.sock"
        self.pods: dict[str, tuple[str, Holdings]] = {}
        self.events: list[tuple[int, str, int]] = []
        self.problems: list[str] = []
        self.snapshots = 0
        self._epoch, self._sequence = "", 0
        self._call: grpc.Call | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until("pod resources watch joined", lambda: self.snapshots, 60)

    def close(self) -> None:
        self._stop.set()
        if self._call:
            self._call.cancel()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def is_consistent(self) -> None:
        """The fold of all events is what List says now, and no event broke a promise."""
        assert self.problems == []
        assert self.snapshots == 1, "the watch had to begin anew: its place was lost"
        until("the fold of all events is what List says", lambda: dict(self.pods.values()) == self.listed())

    def listed(self) -> dict[str, Holdings]:
        with grpc.insecure_channel(self._socket, OPTIONS) as channel:
            answer = stubs.PodResourcesListerStub(channel).List(
                wire.ListPodResourcesRequest(), timeout=20, wait_for_ready=True
            )
        return {pod.name: holdings(pod) for pod in answer.pod_resources}

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._watch()
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.OUT_OF_RANGE:
                    self._epoch, self._sequence = "", 0
            time.sleep(0.02)

    def _watch(self) -> None:
        resume = [("nodeplane-resume", f"{self._epoch}-{self._sequence}")] if self._epoch else []
        metadata = [("nodeplane-sequence", "1"), *(resume or [("nodeplane-snapshot", "1")])]
        with grpc.insecure_channel(self._socket, OPTIONS) as channel:
            request = wire.ListAndWatchPodResourcesRequest()
            call = stubs.PodResourcesListerStub(channel).ListAndWatch(request, metadata=metadata)
            self._call = call
            revision = dict(call.initial_metadata()).get("nodeplane-revision", "")
            if revision and not resume:
                self._joined(call)
            self._epoch = revision.rpartition("-")[0] or self._epoch
            for event in call:
                self._take(event)

    def _joined(self, call: Any) -> None:
        """Take in a snapshot: only ever once, unless the server said that the past is gone."""
        pods: dict[str, tuple[str, Holdings]] = {}
        for event in call:
            if event.action == BOOKMARK:
                break
            pods[event.uid] = (event.pod_resources[0].name, holdings(event.pod_resources[0]))
        self.pods, self._sequence = pods, event.sequence
        self.snapshots += 1

    def _take(self, event: "wire.ListAndWatchPodResourcesResponse") -> None:
        pod = event.pod_resources[0]
        self.events.append((event.action, event.uid, event.sequence))
        if event.sequence <= self._sequence:
            self.problems.append(f"sequence {event.sequence} after {self._sequence}: an event came twice")
        self._sequence = event.sequence
        known = event.uid in self.pods
        if known != (event.action != ADDED):
            self.problems.append(f"action {event.action} of {pod.name}, which was {'known' if known else 'unknown'}")
        if event.action == DELETED:
            self.pods.pop(event.uid, None)
        else:
            self.pods[event.uid] = (pod.name, holdings(pod))
        self._check_capacity(event.sequence)

    def _check_capacity(self, sequence: int) -> None:
        held = [device for _, devices in self.pods.values() for device in devices]
        if len(held) != len(set(held)):
            self.problems.append(f"after event {sequence} a device is held twice: {self.pods}")


def holdings(pod: "wire.PodResources") -> Holdings:
    pairs = ((entry.resource_name, id_) for box in pod.containers for entry in box.devices for id_ in entry.device_ids)
    return frozenset(pairs)
