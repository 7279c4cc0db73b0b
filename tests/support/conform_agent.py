"""An agent that learns which pod has which device, correct but for the bug that its first argument names.

Its second argument says how it learns: `poll` or `watch`. The names of the pods that it knows are in a file.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import grpc

from protocols.wire import podresources_v1_pb2 as pb
from tests.support.stubs import podresources_v1_pb2_grpc as service

BUG, WAY = sys.argv[1], sys.argv[2]
SOCKET = os.environ["NODEPLANE_POD_RESOURCES"]
SHOWN = Path(os.environ["NODEPLANE_KUBELET_DIR"]) / "shown"
PERIOD_S = 0.001 if BUG == "polls_all_the_time" else 0.3
PAUSE_S = 0.0 if BUG == "has_no_back_off" else 0.3
MAX_MESSAGE = 4 << 20 if BUG == "takes_small_messages" else 16 << 20
OPTIONS = (("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_reconnect_backoff_ms", 500))
FATAL = {
    "ends_when_unavailable": grpc.StatusCode.UNAVAILABLE,
    "ends_when_exhausted": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
Event = pb.ListAndWatchPodResourcesResponse
RESOURCE = "example.com/gpu"
Key = tuple[str, str]
pods: set[Key] = set()
ended = threading.Event()


def show() -> None:
    temporary = SHOWN.with_suffix(".tmp")
    temporary.write_text("\n".join(f"{namespace}/{name}" for namespace, name in sorted(pods)))
    temporary.rename(SHOWN)


def key(pod: pb.PodResources) -> Key:
    return pod.namespace, pod.name


def has_device(pod: pb.PodResources) -> bool:
    entries = [entry for container in pod.containers for entry in container.devices]
    return any(entry.device_ids for entry in entries if entry.resource_name == RESOURCE)


def list_pods(stub: Any) -> None:
    reply = stub.List(pb.ListPodResourcesRequest(), timeout=None if BUG == "has_no_deadline" else 5)
    if BUG != "ignores_deleted":
        pods.clear()
    pods.update(key(pod) for pod in reply.pod_resources if has_device(pod))
    show()


def poll(stub: Any) -> None:
    while not ended.is_set():
        list_pods(stub)
        ended.wait(PERIOD_S)


def watch(stub: Any, first: bool) -> None:
    if BUG == "lists_before_it_watches":
        list_pods(stub)
    stream = stub.ListAndWatch(pb.ListAndWatchPodResourcesRequest(), timeout=0.5 if BUG == "watches_briefly" else None)
    stream.initial_metadata()
    if BUG not in ("lists_before_it_watches", "never_lists") and (first or BUG != "lists_once"):
        list_pods(stub)
    for event in stream:
        if BUG == "reads_slowly":
            time.sleep(0.2)
        take(event)


def take(event: Event) -> None:
    for pod in event.pod_resources:
        if event.action != Event.DELETED and has_device(pod):
            pods.add(key(pod))
        elif BUG != "ignores_deleted":
            pods.discard(key(pod))
    show()


def learn(first: bool) -> None:
    with grpc.insecure_channel(f"unix:{SOCKET}", options=OPTIONS) as channel:
        stub = service.PodResourcesListerStub(channel)
        try:
            if WAY == "poll":
                poll(stub)
            else:
                watch(stub, first)
        except grpc.RpcError as error:
            failed(error.code(), stub)


def failed(code: grpc.StatusCode, stub: Any) -> None:
    print(code, flush=True)
    if FATAL.get(BUG) == code or (BUG == "ends_without_kubelet" and not Path(SOCKET).exists()):
        os._exit(3)
    if BUG == "never_connects_again" or (BUG == "needs_a_watch" and code == grpc.StatusCode.UNIMPLEMENTED):
        ended.wait()
    if code == grpc.StatusCode.UNIMPLEMENTED:
        poll(stub)


def run() -> None:
    if BUG == "never_calls" or (BUG == "gives_up_without_kubelet" and not Path(SOCKET).exists()):
        ended.wait()
    first = True
    while not ended.is_set():
        learn(first)
        first = False
        ended.wait(PAUSE_S)


def end(*_: object) -> None:
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if BUG == "ignores_sigterm" else end)
    run()


if __name__ == "__main__":
    main()
