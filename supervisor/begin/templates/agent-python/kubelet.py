"""Follow the pods of a node by a watch, or by lists where it has none, as a kubelet. You need not edit this."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

import podresources_v1_pb2 as pb
import podresources_v1_pb2_grpc as api

SOCKET = os.environ.get("NODEPLANE_POD_RESOURCES", "/var/lib/kubelet/pod-resources/kubelet.sock")
OPTIONS = [("grpc.max_receive_message_length", 16 << 20), ("grpc.max_reconnect_backoff_ms", 5000)]
POLL_S, CALL_S, RETRY_S = 5.0, 10.0, 0.5
Event = pb.ListAndWatchPodResourcesResponse
Pods = dict[tuple[str, str], list[str]]
"""Devices by namespace and name of the pod."""


@dataclass
class Follower:
    """The pods that were reported, and the position at which the watch resumes."""

    devices: Callable[[pb.PodResources], list[str]]
    report: Callable[[str, str, str, list[str]], None]
    pods: Pods = field(default_factory=dict)
    position: str = ""

    def became(self, pods: Pods) -> None:
        """Report the difference, what is gone first: its devices may be another pod's now."""
        before, self.pods = self.pods, pods
        for key in before.keys() - pods.keys():
            self.report("DELETED", *key, [])
        for key, held in pods.items():
            if held != before.get(key):
                self.report("UPDATED" if key in before else "ADDED", *key, held)

    def watch(self, stub: api.PodResourcesListerStub) -> None:
        """Follow one stream. Raises grpc.RpcError when it ends."""
        begin = ("nodeplane-resume", self.position) if self.position else ("nodeplane-snapshot", "1")
        metadata = (("nodeplane-sequence", "1"), begin)
        stream = stub.ListAndWatch(pb.ListAndWatchPodResourcesRequest(), metadata=metadata)
        revision = dict(stream.initial_metadata()).get("nodeplane-revision", "")
        if not revision and stream.is_active():  # a watch without snapshots and positions
            self.list(stub)
        complete = bool(self.position) or not revision
        pods = dict(self.pods) if complete else {}
        for event in stream:
            for pod in event.pod_resources:
                pods.pop((pod.namespace, pod.name), None)
                if event.action != Event.DELETED:
                    pods[pod.namespace, pod.name] = self.devices(pod)
            complete = complete or event.action == Event.BOOKMARK
            if complete:
                self.became(dict(pods))
            if complete and revision:  # the event that completes the snapshot has no sequence
                self.position = f"{revision.partition('-')[0]}-{event.sequence}" if event.sequence else revision

    def list(self, stub: api.PodResourcesListerStub) -> None:
        """Read everything once, where nothing can be watched."""
        pods = stub.List(pb.ListPodResourcesRequest(), timeout=CALL_S).pod_resources
        self.became({(pod.namespace, pod.name): self.devices(pod) for pod in pods})

    def run(self) -> None:
        """Never ends: a stream that breaks is opened again."""
        stub = api.PodResourcesListerStub(grpc.insecure_channel(f"unix:{SOCKET}", options=OPTIONS))
        follow, pause = self.watch, RETRY_S
        while True:
            try:
                follow(stub)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.OUT_OF_RANGE:  # the position is lost: begin with a snapshot
                    self.position = ""
                elif error.code() is grpc.StatusCode.UNIMPLEMENTED and follow == self.watch:
                    follow, pause = self.list, POLL_S
                    continue
            time.sleep(pause)
