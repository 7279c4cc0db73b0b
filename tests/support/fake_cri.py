"""A CRI server in the test itself that answers as it is told: nonsense, nothing, or too much."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protocols.wire import cri_pb2 as pb

PREFIX = "/runtime.v1.RuntimeService/"


class FakeCri:
    """`answers[METHOD]`: bytes, a message, an exception, or a grpc.StatusCode; anything missing is UNIMPLEMENTED."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: list[str] = []
        self.events: asyncio.Queue[bytes | grpc.StatusCode | None] | None = asyncio.Queue()
        """None: no event stream. None inside ends the stream, a status code breaks it."""
        self.headers = True
        self.release = asyncio.Event()
        """Calls that were told to wait (`...`) go on, with what is the answer then."""
        self.pieces: dict[str, list[bytes]] = {}
        """Answers of the streaming lists (StreamContainers ...); a method that is missing is UNIMPLEMENTED."""
        self.answers: dict[str, Any] = {
            "Version": pb.VersionResponse(
                version="0.1.0", runtime_name="fake", runtime_version="1", runtime_api_version="v1"
            ),
            "Status": pb.StatusResponse(
                status=pb.RuntimeStatus(conditions=[pb.RuntimeCondition(type="RuntimeReady", status=True)])
            ),
            "ListPodSandbox": pb.ListPodSandboxResponse(),
            "ListContainers": pb.ListContainersResponse(),
        }
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        options = [("grpc.max_send_message_length", -1)]
        self._server = grpc.aio.server(handlers=[_Handlers(self)], options=options)
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    def pod(self, uid: str, containers: "list[pb.ContainerStatus]", timestamp: int = 0) -> None:
        """The runtime holds this pod alone: sandbox `s-UID`."""
        sandbox = sandbox_of(uid)
        self.answers["ListPodSandbox"] = pb.ListPodSandboxResponse(
            items=[pb.PodSandbox(id=sandbox.id, metadata=sandbox.metadata, state=sandbox.state, created_at=1)]
        )
        self.answers["PodSandboxStatus"] = pb.PodSandboxStatusResponse(
            status=sandbox, containers_statuses=containers if timestamp else [], timestamp=timestamp
        )
        self.answers["ListContainers"] = pb.ListContainersResponse(
            containers=[pb.Container(id=item.id, pod_sandbox_id=sandbox.id, state=item.state) for item in containers]
        )
        self.answers["ContainerStatus"] = pb.ContainerStatusResponse(status=containers[0] if containers else None)

    def send(self, **fields: Any) -> None:
        assert self.events is not None
        self.events.put_nowait(pb.ContainerEventResponse(**fields).SerializeToString())

    def count(self, method: str) -> int:
        return self.calls.count(method)

    async def unary(self, method: str, context: Any) -> bytes:
        self.calls.append(method)
        answer = self.answers.get(method, grpc.StatusCode.UNIMPLEMENTED)
        if answer is ...:
            await self.release.wait()
            answer = self.answers[method]
        if isinstance(answer, grpc.StatusCode):
            await context.abort(answer, "as told")
        return answer if isinstance(answer, bytes) else bytes(answer.SerializeToString())

    async def stream(self, context: Any) -> AsyncIterator[bytes]:
        self.calls.append("GetContainerEvents")
        if self.events is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no events")
            return
        if self.headers:
            await context.send_initial_metadata(())
        while (event := await self.events.get()) is not None:
            if isinstance(event, grpc.StatusCode):
                await context.abort(event, "as told")
                return
            yield event


def sandbox_of(uid: str) -> "pb.PodSandboxStatus":
    metadata = pb.PodSandboxMetadata(name="p", uid=uid, namespace="default")
    return pb.PodSandboxStatus(id=f"s-{uid}", metadata=metadata, state=pb.SANDBOX_READY, created_at=1)


def container_of(id_: str, state: int, created_at: int = 1) -> "pb.ContainerStatus":
    status = pb.ContainerStatus(id=id_, metadata=pb.ContainerMetadata(name="main"), created_at=created_at)
    status.state = state  # type: ignore[assignment]  # unknown values on purpose
    return status


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, fake: FakeCri) -> None:
        self._fake = fake

    async def _stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        async for event in self._fake.stream(context):
            yield event

    def _pieces(self, method: str) -> Any:
        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            self._fake.calls.append(method)
            for piece in self._fake.pieces[method]:
                yield piece

        return stream

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.removeprefix(PREFIX)
        if method == "GetContainerEvents":
            return grpc.unary_stream_rpc_method_handler(self._stream)
        if method in self._fake.pieces:
            return grpc.unary_stream_rpc_method_handler(self._pieces(method))

        async def unary(request: bytes, context: Any) -> bytes:
            return await self._fake.unary(method, context)

        return grpc.unary_unary_rpc_method_handler(unary)
