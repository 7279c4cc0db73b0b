"""The agent of conform_agent.py with a bug that exporters and others had, which its first argument names.

Each bug is a function that replaces a part of the correct agent; a name that is not among them is left to that.
"""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from protocols.wire import podresources_v1_pb2 as pb
from tests.support import conform_agent as sample
from tests.support.planting import BUGS, bug, replace
from tests.support.stubs import podresources_v1_pb2_grpc as service

# what is made of pods


@bug
def knows_pods_by_name() -> None:
    replace(sample, "key", lambda pod: ("", pod.name))


@bug
def reads_the_first_container() -> None:
    correct = sample.has_device
    replace(sample, "has_device", lambda pod: correct(pb.PodResources(containers=pod.containers[:1])))


@bug
def reads_the_first_device() -> None:
    correct = sample.has_device

    def has_device(pod: pb.PodResources) -> bool:
        firsts = [pb.ContainerResources(devices=container.devices[:1]) for container in pod.containers]
        return correct(pb.PodResources(containers=firsts))

    replace(sample, "has_device", has_device)


@bug
def expects_devices() -> None:
    replace(sample, "has_device", lambda pod: pod.containers[0].devices[0].resource_name == sample.RESOURCE)


@bug
def ignores_updates() -> None:
    correct = sample.take
    replace(sample, "take", lambda event: correct(event) if event.action != sample.Event.UPDATED else None)


@bug
def adds_each_list() -> None:
    def list_pods(stub: Any) -> None:
        reply = stub.List(pb.ListPodResourcesRequest(), timeout=5)
        sample.pods.update(sample.key(pod) for pod in reply.pod_resources if sample.has_device(pod))
        sample.show()

    replace(sample, "list_pods", list_pods)


@bug
def knows_devices_by_their_ids() -> None:
    def list_pods(stub: Any) -> None:
        reply = stub.List(pb.ListPodResourcesRequest(), timeout=5)
        entries = [
            (pod, entry) for pod in reply.pod_resources for container in pod.containers for entry in container.devices
        ]
        owners = {id: (pod, entry) for pod, entry in entries for id in entry.device_ids}
        sample.pods.clear()
        sample.pods.update(sample.key(pod) for pod, entry in owners.values() if entry.resource_name == sample.RESOURCE)
        sample.show()

    replace(sample, "list_pods", list_pods)


@bug
def ignores_an_empty_list() -> None:
    correct = sample.key

    def list_pods(stub: Any) -> None:
        reply = stub.List(pb.ListPodResourcesRequest(), timeout=5)
        if reply.pod_resources:
            sample.pods.clear()
            sample.pods.update(correct(pod) for pod in reply.pod_resources if sample.has_device(pod))
            sample.show()

    replace(sample, "list_pods", list_pods)


@bug
def expects_pods() -> None:
    correct = sample.list_pods

    def list_pods(stub: Any) -> None:
        correct(stub)
        max(sample.pods)

    replace(sample, "list_pods", list_pods)


# calls


@bug
def ends_at_a_deadline() -> None:
    correct = sample.failed

    def failed(code: grpc.StatusCode, stub: Any) -> None:
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            sys.exit(3)
        correct(code, stub)

    replace(sample, "failed", failed)


@bug
def lists_once_only() -> None:
    def poll(stub: Any) -> None:
        sample.list_pods(stub)
        sample.ended.wait()

    replace(sample, "poll", poll)


@bug
def asks_for_each_pod() -> None:
    correct = sample.list_pods

    def list_pods(stub: Any) -> None:
        correct(stub)
        for namespace, name in sorted(sample.pods):
            stub.Get(pb.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace), timeout=5)

    replace(sample, "list_pods", list_pods)


@bug
def leaves_connections_open() -> None:
    channels = []

    def learn(first: bool) -> None:
        options = (*sample.OPTIONS, ("grpc.use_local_subchannel_pool", 1))
        channels.append(grpc.insecure_channel(f"unix:{sample.SOCKET}", options=options))
        with suppress(grpc.RpcError):
            sample.list_pods(service.PodResourcesListerStub(channels[-1]))

    replace(sample, "learn", learn)


@bug
def spins_without_kubelet() -> None:
    correct = sample.learn

    def learn(first: bool) -> None:
        while not Path(sample.SOCKET).exists():
            pass
        correct(first)

    replace(sample, "learn", learn)


@bug
def calls_when_it_is_asked() -> None:
    """No bug: many exporters do."""
    correct, asked = sample.list_pods, sample.SHOWN.with_name("asked")

    def list_pods(stub: Any) -> None:
        if asked.exists():
            asked.unlink()
            correct(stub)

    replace(sample, "list_pods", list_pods)


if __name__ == "__main__":
    BUGS.get(sys.argv[1], lambda: None)()
    sample.main()
