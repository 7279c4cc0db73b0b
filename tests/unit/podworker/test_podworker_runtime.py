"""The client of the runtime raises the errors of the bus alone: its callers wait and retry on them."""

from typing import Any

import pytest

from actors.cri.operations import OPERATIONS
from actors.podworker.clients.bus import BusDevices, Streams
from actors.podworker.clients.runtime import BusRuntime
from actors.podworker.endpoint.errors import RuntimeUnavailable
from actors.podworker.endpoint.routes import StreamCalls
from actors.podworker.model.dependencies import ImagePull
from protocols.bus import BusError
from protocols.bus.calls import CallTable
from protocols.messages import devices
from protocols.messages.cri import CriCall, CriReply, RuntimeHandler, RuntimeState
from protocols.wire import cri_pb2


class GarbageBus:
    async def call(self, *_: Any, **__: Any) -> CriReply:
        return CriReply(response=b"\xff\xff\xff\xff")


async def test_call_with_a_reply_that_does_not_decode_raises_a_bus_error() -> None:
    runtime: Any = BusRuntime(GarbageBus())  # type: ignore[arg-type]  # the one method that it calls
    with pytest.raises(BusError, match="ListPodSandbox does not decode") as raised:
        await runtime.live_pods()
    assert raised.value.code == "INTERNAL"


async def test_stream_call_with_a_reply_that_does_not_decode_is_the_runtimes_fault() -> None:
    """`kubectl port-forward` had a 500, and the log a traceback."""
    with pytest.raises(RuntimeUnavailable, match="PortForward does not decode"):
        await StreamCalls(GarbageBus()).port_forward("s")  # type: ignore[arg-type]  # as above


async def test_slow_calls_have_the_time_that_upstream_gives_them() -> None:
    """A pull of 20 GB, as for a GPU, was cut off after ten minutes, and a network plugin after two."""
    given: dict[str, float] = {}
    pulled = cri_pb2.PullImageRequest()

    class TimedBus:
        async def call(self, owner: str, method: str, call: CriCall, *_: Any, timeout: float, **__: Any) -> CriReply:
            if call.operation == "PullImage":
                pulled.ParseFromString(call.request)
            given[call.operation] = min(timeout, OPERATIONS[call.operation].limit_s)
            return CriReply(b"")

    runtime = BusRuntime(TimedBus())  # type: ignore[arg-type]  # the one method that it calls
    await runtime.run_sandbox(cri_pb2.PodSandboxConfig(), "")
    metadata = cri_pb2.PodSandboxMetadata(namespace="ns")
    await runtime.pull_image(ImagePull("big", cri_pb2.PodSandboxConfig(metadata=metadata)))
    assert pulled.sandbox_config.metadata.namespace == "ns", "CRI-O has policies by namespace"
    assert given == {"RunPodSandbox": 240, "PullImage": 3600}


class NotedBus:
    """A bus that notes which methods it may send again."""

    def __init__(self) -> None:
        self.repeated: dict[str, bool] = {}

    async def call(self, owner: str, method: str, *_: Any, idempotent: bool = False, **__: Any) -> None:
        self.repeated[method] = idempotent


async def test_list_of_active_pods_is_not_sent_again() -> None:
    """A repeated call waits for its back-off, and arrives after the admission of a pod that it does not list."""
    bus = NotedBus()
    client = BusDevices(bus, Streams())  # type: ignore[arg-type]  # the one method that it calls
    await client.reconcile(("old",))
    await client.release("old")
    assert bus.repeated == {devices.RECONCILE: False, devices.RELEASE: True}
    table = CallTable("devices", "podworker")
    listed = table.open(devices.RECONCILE, b"", 10.0, True)
    for _ in range(3):  # the callee dies again and again
        table.went(listed, 0.0)
        table.lost(0.0)
    admission = table.open(devices.ADMIT, b"", 35.0, True)
    assert table.due(0.0) == [admission]


def test_name_and_handlers_of_the_runtime_outlive_a_restart_of_cri() -> None:
    """A status that was made before cri had asked showed containers as nodeplane://ID instead of containerd://ID."""
    streams, handler = Streams(), RuntimeHandler("", recursive_read_only=True, user_namespaces=False)
    assert streams.runtime_name() == "nodeplane"
    known = RuntimeState(connected=True, name="containerd", version="2.0.0", handlers=(handler,))
    streams.runtime_state.on_snapshot([("runtime", known)], 0)
    streams.runtime_state.on_snapshot([], 0)
    streams.runtime_state.on_snapshot([("runtime", RuntimeState(message="not open yet"))], 0)
    assert (streams.runtime_name(), streams.recursive_mounts("")) == ("containerd", True)
    assert streams.runtime.message == "not open yet"
