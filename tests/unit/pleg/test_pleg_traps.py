"""Traps of the container runtime interface that no scenario shows: each beside the design that walks into it."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.cri.operations import OPERATIONS
from actors.cri.runtime_client import RuntimeChannel
from actors.pleg.shell.runtime_client import RuntimeClient
from actors.pleg.state_machine.lifecycle_events import may_become_oom_killed
from actors.podworker.clients.api import ApiPods
from actors.podworker.clients.runtime import BusRuntime
from actors.runtime.model.containers import Container, ContainerRecord, Life, Sandbox, SandboxRecord
from actors.runtime.model.cri_messages import container_item, container_status
from protocols.http2 import frames as h2
from protocols.http2.frames import PREFACE, Splitter, pack
from protocols.http2.hpack import Decoder
from protocols.kinds.table import PODS, Resource
from protocols.kubeclient.client import ApiError
from protocols.lifecycle.pods.types import read_pod
from protocols.messages import cri as messages
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.wire import cri_pb2 as cri
from protocols.wire.methods import CLIENT_OPTIONS

ROOT = Path(__file__).parents[3]


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


# 3: the document's snippets number fields otherwise than every runtime does

EVENT = b"".join(
    (
        block(1, b"c1"),
        number(2, 2),
        number(3, 1_700_000_000_000_000_000),
        block(4, block(1, b"s1") + block(2, block(1, b"p") + block(2, b"u1"))),
        block(5, block(1, b"c1") + number(3, 2)),
    )
)
"""An event as runtimes send it: a sandbox's status at 4, statuses of containers at 5."""
AS_WRITTEN = {"pod_sandbox_metadata": (4, "PodSandboxMetadata"), "pod_sandbox_status": (5, "PodSandboxStatus")}


def as_written() -> type[Message]:
    """The event of the document's text: metadata at 4, so that the rest is one further."""
    file = descriptor_pb2.FileDescriptorProto(
        name="as_written.proto", package="written", syntax="proto3", dependency=[cri.DESCRIPTOR.name]
    )
    event = file.message_type.add(name="Event")
    kind = descriptor_pb2.FieldDescriptorProto
    event.field.add(name="container_id", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    for name, (at, type_name) in AS_WRITTEN.items():
        request_relist = f".{cri.DESCRIPTOR.package}.{type_name}"
        event.field.add(
            name=name, number=at, type=kind.TYPE_MESSAGE, label=kind.LABEL_OPTIONAL, type_name=request_relist
        )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("written.Event"))


@pytest.mark.scenario("trap 3")
def test_field_numbers_are_the_runtimes_and_not_the_documents() -> None:
    naive: Any = as_written().FromString(EVENT)
    assert naive.pod_sandbox_metadata.uid != "u1"
    assert naive.pod_sandbox_status.id == "c1", "the container is taken for the pod's sandbox"
    ours = cri.ContainerEventResponse.FromString(EVENT)
    assert ours.pod_sandbox_status.metadata.uid == "u1"
    assert [status.id for status in ours.containers_statuses] == ["c1"]
    answer = cri.PodSandboxStatusResponse.FromString(block(3, block(1, b"c1")) + number(4, 7))
    assert (answer.containers_statuses[0].id, answer.timestamp) == ("c1", 7)


@pytest.mark.scenario("trap 3")
async def test_no_request_has_the_documents_include_containers() -> None:
    """It was never added; a runtime that is asked for it answers as if it was not."""
    asked: list[messages.CriCall] = []

    class Bus:
        async def call(self, owner: str, method: str, request: messages.CriCall, *_: Any, **__: Any) -> Any:
            asked.append(request)
            listed = cri.PodSandbox(id="s1", metadata=cri.PodSandboxMetadata(uid="u1"))
            status = cri.PodSandboxStatus(id="s1", metadata=listed.metadata, created_at=1)
            answers: dict[str, Message] = {
                "ListPodSandbox": cri.ListPodSandboxResponse(items=[listed]),
                "PodSandboxStatus": cri.PodSandboxStatusResponse(status=status),
            }
            answer = answers.get(request.operation, cri.ListContainersResponse())
            return messages.CriReply(answer.SerializeToString())

    await RuntimeClient(Bus()).inspect("u1")  # type: ignore[arg-type]  # a bus that answers for the runtime
    (request,) = [call.request for call in asked if call.operation == "PodSandboxStatus"]
    assert request == block(1, b"s1")
    assert {field.number for field in cri.PodSandboxStatusRequest.DESCRIPTOR.fields} == {1, 2}


# 24: what a kubelet's checks refuse


def complaint(item: Any) -> str:
    """A kubelet's check of one container in a list or of a status: what it says of it."""
    if not item.id:
        return "id"
    if not item.metadata.name:
        return "metadata.name"
    if item.created_at == 0:
        return "created_at"
    if not item.image.image:
        return "image.image"
    return "" if item.image_ref else "image_ref"


names = st.text("abcxyz0189-", min_size=1, max_size=12)


@pytest.mark.scenario("trap 24")
@given(name=names, image=names, state=st.sampled_from(["created", "running", "exited"]), at=st.integers(1, 2**62))
def test_containers_have_every_field_a_kubelet_checks(name: str, image: str, state: str, at: int) -> None:
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name), image=cri.ImageSpec(image=image))
    life = Life(created_at=at, started_at=at if state != "created" else 0, finished_at=at if state == "exited" else 0)
    pod = Sandbox(SandboxRecord("5b", 1, "boot", b""), cri.PodSandboxConfig())
    made = Container(ContainerRecord("c0", pod.id, "boot", b"", life), config, pod)
    assert (complaint(container_item(made)), complaint(container_status(made))) == ("", "")
    naive = cri.Container(id="c0", metadata=config.metadata, image=config.image, state=cri.CONTAINER_CREATED)
    assert complaint(naive) == "created_at"
    naive.created_at = at
    assert complaint(naive) == "image_ref"


# 29: two seconds at least, whatever the hook left of the grace; but a forced deletion is another thing


class Stops:
    """A bus that notes how long the runtime may take."""

    def __init__(self) -> None:
        self.seconds: list[int] = []

    async def call(self, owner: str, method: str, request: messages.CriCall, *_: Any, **__: Any) -> Any:
        self.seconds.append(cri.StopContainerRequest.FromString(request.request).timeout)
        return messages.CriReply(b"")


@pytest.mark.scenario("trap 29")
@settings(max_examples=30)
@given(grace=st.integers(0, 600), hook=st.integers(0, 700))
async def test_a_container_has_two_seconds_after_its_hook(grace: int, hook: int) -> None:
    left = max(0, grace - hook)
    bus = Stops()
    await BusRuntime(bus).stop_container("c", left)  # type: ignore[arg-type]  # a bus that answers for cri
    naive = left
    assert bus.seconds == [max(2, naive)], "0 is SIGKILL at once: what the hook prepared is never done"


@pytest.mark.scenario("trap 29")
@pytest.mark.parametrize(("asked", "given_"), [(None, 30), (0, 1), (1, 1), (7, 7)])
def test_a_forced_deletion_of_0_s_becomes_1_s(asked: int | None, given_: int) -> None:
    metadata: Any = {"uid": "u", "name": "p", "deletionGracePeriodSeconds": asked}
    assert read_pod({"metadata": metadata, "spec": {"containers": []}}).grace == given_


# 36: the API's pod is deleted as this very pod, and another of its name is let be


@pytest.mark.scenario("trap 36")
@pytest.mark.parametrize(("code", "raised"), [(0, False), (404, False), (409, False), (403, True)])
async def test_deletion_is_bound_to_the_uid(code: int, raised: bool) -> None:
    class Client:
        asked: ClassVar[list[tuple[Any, ...]]] = []

        async def delete(self, resource: Resource, name: str, namespace: str, grace: int, uid: str) -> None:
            """By name alone (naive) the pod that has taken its address would go."""
            self.asked.append((resource, name, namespace, grace, uid))
            if code:
                raise ApiError(code, {"message": "another uid"})

    pods = ApiPods(Client())  # type: ignore[arg-type]  # a client that answers for the API
    spec = read_pod({"metadata": {"uid": "u1", "name": "p", "namespace": "n"}, "spec": {"containers": []}})
    with pytest.raises(ApiError) if raised else contextlib.nullcontext():
        await pods.delete(spec)
    assert Client.asked == [(PODS, "p", "n", 0, "u1")]


# 32: unix sockets, large messages, forks


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a path short enough for sockets."""
    made = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.mark.scenario("trap 32")
async def test_the_authority_on_a_unix_socket_is_localhost(short: Path) -> None:
    """Left to a library it is the escaped path, which servers in Rust and .NET refuse."""
    heard: list[dict[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(pack(h2.SETTINGS, 0, 0))
        splitter, decoder = Splitter(), Decoder()
        data = (await reader.readexactly(len(PREFACE)))[len(PREFACE) :]
        while not heard:
            for kind, _, _, body in splitter.feed(data):
                if kind == h2.HEADERS:
                    heard.append(dict(decoder.decode(bytes(body))))
            data = b"" if heard else await reader.read(65_536)
        writer.close()

    server = await asyncio.start_unix_server(serve, short / "rt.sock")
    channel = RuntimeChannel(f"unix://{short}/rt.sock")
    with pytest.raises(Exception, match="UNAVAILABLE"):
        await channel.call(OPERATIONS["Version"], b"", 10.0)
    channel.close()
    server.close()
    await server.wait_closed()
    assert heard[0][b":authority"] == b"localhost"


@pytest.mark.scenario("trap 32")
def test_messages_may_have_16_mib() -> None:
    """The library's own limit is 4: a node with 3,000 containers could not be listed."""
    assert dict(CLIENT_OPTIONS)["grpc.max_receive_message_length"] == 16 << 20


def imported(module: str) -> set[str]:
    """All that importing `module` imports: ours whole, of others the first part of the name."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        path = ROOT / Path(*name.split("."))
        file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        known = name if file.exists() else name.partition(".")[0]
        if known not in seen and file.exists():
            todo += named_in(file)
        seen.add(known)
    return seen


def named_in(file: Path) -> list[str]:
    found: list[str] = []
    for line in file.read_text().splitlines():
        match line.split():
            case ["import", *names]:
                found += " ".join(names).replace(" as ", ",").split(",")
            case ["from", module, "import", *names]:
                found += [module, *(f"{module}.{name.strip(',')}" for name in names)]
    return [name.strip() for name in found]


@pytest.mark.scenario("trap 32")
def test_processes_that_fork_containers_never_import_grpc() -> None:
    """A fork after grpc has begun its threads may hang for ever in the child."""
    threaded = {"grpc", "zmq", "uvloop"}
    assert imported("actors.runtime.actor") & threaded, "the naive address to fork"
    assert not imported("actors.runtime.shim.launcher") & threaded
    assert not imported("actors.runtime.shim.holder") & threaded
    forks = {file for file in (ROOT / "actors").rglob("*.py") if "os.fork()" in file.read_text()}
    assert {str(file.relative_to(ROOT)) for file in forks} == {
        "actors/runtime/shim/launcher.py",
        "actors/runtime/shim/child.py",
        "actors/runtime/shim/holder.py",
    }


# 15: a payload is not the last word


def ended(code: int, reason: str, state: str = "exited") -> PodStatus:
    run = ContainerStatus("c1", "s1", "a", 0, state, created_ns=1, exit_code=code, reason=reason)
    return PodStatus(uid="u1", containers=(run,))


@pytest.mark.scenario("trap 15")
def test_a_killed_container_is_inspected_once_more() -> None:
    """The reason of a kill may be known after the end, and no event reports it: naively it stays an `Error`."""
    killed = ended(137, "Error")
    assert may_become_oom_killed({}, killed)
    assert may_become_oom_killed({"c1": "running"}, killed)
    assert not may_become_oom_killed({"c1": "exited"}, killed), "once"
    assert not may_become_oom_killed({"c1": "running"}, ended(137, "OOMKilled"))
    assert not may_become_oom_killed({"c1": "running"}, ended(1, "Error"))
    assert not may_become_oom_killed({"c1": "running"}, ended(137, "", "running"))
    assert not may_become_oom_killed({"c1": "running"}, None)
