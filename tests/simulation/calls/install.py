"""Replace grpc.aio's servers and channels by those of the world."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import grpc.aio

from protocols.process import sockets as product_sockets
from tests.simulation.calls.channel import SimChannel
from tests.simulation.calls.http2 import spoil_answers
from tests.simulation.calls.server import SimServer
from tests.simulation.calls.sockets import Sockets
from tests.simulation.world.patching import substitute
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def install(world: "World") -> Sockets:
    """Replace them for this world. Import what runs in it first: names are replaced in loaded modules."""
    sockets = Sockets(world)

    def server(*_: Any, maximum_concurrent_rpcs: int | None = None, **__: Any) -> SimServer:
        return SimServer(sockets, running(world), maximum_concurrent_rpcs)

    def channel(target: str, options: Iterable[tuple[str, Any]] = (), **_: Any) -> SimChannel:
        return SimChannel(sockets, running(world), target, options or ())

    substitute(grpc.aio.server, server)
    substitute(grpc.aio.insecure_channel, channel)
    substitute(product_sockets.answers, sockets.answers)
    spoil_answers(sockets)
    return sockets
