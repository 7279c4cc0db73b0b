"""Exec, Attach, PortForward: each returns a URL. The HTTP server behind it is imported at the first call."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from actors.runtime.model.errors import InvalidRequest, WrongState
from actors.runtime.model.pods import RuntimePods
from actors.runtime.operations.containers import Containers
from protocols.wire import cri_pb2 as pb

if TYPE_CHECKING:
    from actors.runtime.streaming.server import StreamServer

STDOUT, STDERR = 1, 2


class StreamMethods:
    """Exec, Attach and PortForward by CRI's names."""

    def __init__(
        self, pods: RuntimePods, containers: Containers, private: Callable[[], Collection[int]] = frozenset
    ) -> None:
        """`private` returns the ports of the plane, which port-forward rejects."""
        self._pods = pods
        self._containers = containers
        self._private = private
        self._server: StreamServer | None = None

    async def Exec(self, request: pb.ExecRequest) -> pb.ExecResponse:
        from actors.runtime.streaming.sessions import Exec  # loads an HTTP server: most runtimes never need one

        container = self._containers.find_running(request.container_id)
        if not request.cmd:
            raise InvalidRequest("cmd is required")
        stream = Exec(
            container=container,
            backend=self._containers.backend(container),
            command=tuple(request.cmd),
            stdin=request.stdin,
            outputs=_outputs(request),
            terminal=request.tty,
        )
        return pb.ExecResponse(url=await self._streams().url(stream))

    async def Attach(self, request: pb.AttachRequest) -> pb.AttachResponse:
        from actors.runtime.streaming.sessions import Attach  # as above

        container = self._containers.find_running(request.container_id)
        backend = self._containers.backend(container)
        stream = Attach(container=container, backend=backend, stdin=request.stdin, outputs=_outputs(request))
        return pb.AttachResponse(url=await self._streams().url(stream))

    async def PortForward(self, request: pb.PortForwardRequest) -> pb.PortForwardResponse:
        """The request's ports are for clients whose protocol does not name the port of each connection."""
        from actors.runtime.streaming.port_forward import PortForward  # as above

        sandbox = self._pods.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise WrongState(f'sandbox "{sandbox.id}" is not ready')
        stream = PortForward(sandbox=sandbox.id, private=self._closed_ports, ports=tuple(request.port))
        return pb.PortForwardResponse(url=await self._streams().url(stream))

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    def _closed_ports(self) -> set[int]:
        return {*self._private(), self._streams().port}

    def _streams(self) -> "StreamServer":
        from actors.runtime.streaming.server import StreamServer  # as above

        if self._server is None:
            self._server = StreamServer()
        return self._server


def _outputs(request: pb.ExecRequest | pb.AttachRequest) -> tuple[int, ...]:
    if not (request.stdin or request.stdout or request.stderr):
        raise InvalidRequest("one of stdin, stdout and stderr is required")
    if request.tty and request.stderr:
        raise InvalidRequest("tty and stderr exclude each other")
    return (STDOUT,) * request.stdout + (STDERR,) * request.stderr
