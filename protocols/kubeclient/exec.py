"""Commands in containers, over SPDY to the API server: its rejection has a reason, that of a websocket has none."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from protocols.errors import NodeplaneError
from protocols.kinds.table import PODS
from protocols.kube.errors import ApiAway
from protocols.kubeclient.client import ApiClient, error_of
from protocols.streams.channels import ERROR, STDERR, STDOUT
from protocols.streams.spdy_channels import OFFERED, SpdyCommand
from protocols.streams.spdy_dial import DialedWire, NotUpgraded, Upgrade, dial
from protocols.streams.websocket_channels import failure_text


class CommandFailed(NodeplaneError, http=500, grpc="UNKNOWN"):
    """Raised when a command ended with another exit code than 0, or could not be run."""


class ContainerName(NamedTuple):
    """A container of a pod, by names."""

    namespace: str
    pod: str
    container: str


async def exec_output(client: ApiClient, where: ContainerName, command: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """Yield what a command writes to its standard output and error, until it has ended.

    Raises CommandFailed, ApiError, ApiAway.
    """
    wire = await _dialed(client, where, command)
    try:
        channels = SpdyCommand(wire)
        await channels.open({ERROR, STDOUT, STDERR})
        async for message in channels:
            channel, content = message.data[0], message.data[1:]
            if channel != ERROR:
                yield content
            elif failure := failure_text(content):
                raise CommandFailed(" ".join(failure.decode(errors="replace").split()))
            else:
                return
    except OSError as error:
        raise ApiAway(f"exec in {where.pod}: {error}") from None
    finally:
        wire.close()
    raise ApiAway(f"exec in {where.pod}: the connection ended before the command")


async def _dialed(client: ApiClient, where: ContainerName, command: Sequence[str]) -> DialedWire:
    """Raises ApiError, ApiAway."""
    query = [("container", where.container), ("stdout", "true"), ("stderr", "true")]
    path = PODS.path(where.pod, where.namespace, "exec")
    access = client.access()
    url = f"{access.server}{path}?{urlencode([*query, *(('command', word) for word in command)])}"
    try:
        return await dial(Upgrade(url, OFFERED, access.tls, access.server_name, access.headers))
    except NotUpgraded as answer:
        raise error_of(answer.status, answer.body) from None
    except (TimeoutError, OSError) as error:
        raise ApiAway(f"POST {path}: {str(error) or type(error).__name__}") from None
