"""An agent that prints which pod holds which device, and every change, as lines of JSON.

It watches where the node offers that, and lists every POLL_S where it does not, as at a kubelet.
"""

import json
import os
import time

import grpc

import podresources_v1_pb2 as pb
import podresources_v1_pb2_grpc as api

SOCKET = os.environ.get("NODEPLANE_POD_RESOURCES", "/var/lib/kubelet/pod-resources/kubelet.sock")
OPTIONS = [("grpc.max_receive_message_length", 16 << 20)]
POLL_S, CALL_S, RETRY_S = 5.0, 10.0, 0.5
Action = pb.ListAndWatchPodResourcesResponse
Pods = dict[tuple[str, str], list[str]]
"""Devices by namespace and name of the pod."""


def devices(pod: pb.PodResources) -> list[str]:
    entries = [entry for container in pod.containers for entry in container.devices]
    plugins = [f"{entry.resource_name}={id}" for entry in entries for id in entry.device_ids]
    claims = [claim for container in pod.containers for claim in container.dynamic_resources]
    return plugins + [
        f"{each.driver_name}/{each.pool_name}/{each.device_name}" for claim in claims for each in claim.claim_resources
    ]


class Agent:
    """The pods with devices, and the position at which the watch resumes."""

    def __init__(self, stub: api.PodResourcesListerStub) -> None:
        self.stub = stub
        self.pods: Pods = {}
        self.position = ""

    def became(self, pods: Pods) -> None:
        """Report the difference to all pods: what is gone first, since its devices may be another pod's now."""
        for key in self.pods.keys() - pods.keys():
            self.set(key, None)
        for key, held in pods.items():
            self.set(key, held)

    def set(self, key: tuple[str, str], held: list[str] | None) -> None:
        """Report a pod that has changed; None if it is gone."""
        before = self.pods.pop(key, None)
        if held is not None:
            self.pods[key] = held
        if held != before:
            self.report("DELETED" if held is None else "ADDED" if before is None else "UPDATED", key, held or [])

    def report(self, action: str, key: tuple[str, str], held: list[str]) -> None:
        """The place for what your agent does."""
        line = {"action": action, "namespace": key[0], "name": key[1], "devices": held}
        print(json.dumps(line), flush=True)

    def watch(self) -> None:
        """Follow one stream, after the last event where one was seen. Raises grpc.RpcError when it ends."""
        begin = ("nodeplane-resume", self.position) if self.position else ("nodeplane-snapshot", "1")
        metadata = (("nodeplane-sequence", "1"), begin)
        stream = self.stub.ListAndWatch(pb.ListAndWatchPodResourcesRequest(), metadata=metadata)
        revision = dict(stream.initial_metadata()).get("nodeplane-revision", "")
        snapshot: Pods | None = None if self.position or not revision else {}
        if not revision and stream.is_active():  # a watch without snapshots and positions
            self.list()
        for event in stream:
            if event.action == Action.BOOKMARK and snapshot is not None:  # the snapshot is complete
                self.became(snapshot)
                snapshot, self.position = None, revision
                continue
            for pod in event.pod_resources:
                key, held = (pod.namespace, pod.name), None if event.action == Action.DELETED else devices(pod)
                if snapshot is not None:
                    snapshot[key] = held or []
                else:
                    self.set(key, held)
            if snapshot is None and revision:
                self.position = f"{revision.partition('-')[0]}-{event.sequence}"

    def list(self) -> None:
        """Read everything once, where nothing can be watched."""
        found = self.stub.List(pb.ListPodResourcesRequest(), timeout=CALL_S)
        self.became({(pod.namespace, pod.name): devices(pod) for pod in found.pod_resources})

    def run(self) -> None:
        """Never ends: a stream that breaks is opened again."""
        follow = self.watch
        while True:
            pause = POLL_S if follow == self.list else RETRY_S
            try:
                follow()
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.OUT_OF_RANGE:  # the position is lost: begin with a snapshot
                    self.position, pause = "", 0
                elif error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    follow, pause = self.list, 0
            time.sleep(pause)


if __name__ == "__main__":
    with grpc.insecure_channel(f"unix:{SOCKET}", options=OPTIONS) as channel:
        Agent(api.PodResourcesListerStub(channel)).run()
