"""The three CRI calls that answer with the URL of a stream, by way of `cri`."""

from typing import TypeVar

from google.protobuf.message import Message

from actors.podworker.streaming.errors import RuntimeAway
from actors.podworker.streaming.query import ExecOptions
from protocols.bus import Bus, BusError
from protocols.messages import cri as messages
from protocols.wire import cri_pb2

CALL_S = 15.0
Reply = TypeVar("Reply", bound=Message)


class StreamCalls:
    """Each returns a URL that is good once and for a short time. Raises RuntimeAway."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def exec(self, container: str, options: ExecOptions) -> str:
        request = cri_pb2.ExecRequest(
            container_id=container,
            cmd=options.command,
            tty=options.tty,
            stdin=options.stdin,
            stdout=options.stdout,
            stderr=options.stderr,
        )
        return (await self._call("Exec", request, cri_pb2.ExecResponse)).url

    async def attach(self, container: str, options: ExecOptions) -> str:
        request = cri_pb2.AttachRequest(
            container_id=container,
            tty=options.tty,
            stdin=options.stdin,
            stdout=options.stdout,
            stderr=options.stderr,
        )
        return (await self._call("Attach", request, cri_pb2.AttachResponse)).url

    async def port_forward(self, sandbox: str) -> str:
        request = cri_pb2.PortForwardRequest(pod_sandbox_id=sandbox)
        return (await self._call("PortForward", request, cri_pb2.PortForwardResponse)).url

    async def _call(self, operation: str, request: Message, reply: type[Reply]) -> Reply:
        call = messages.CriCall(operation=operation, request=request.SerializeToString())
        try:
            answer = await self._bus.call(messages.OWNER, messages.CALL, call, messages.CriReply, timeout=CALL_S)
        except BusError as error:
            raise RuntimeAway(error.message or str(error)) from None
        return reply.FromString(answer.response)
