"""Garbage from the runtime: its answers travel over the world's streams, beside the gRPC of this package."""

from typing import TYPE_CHECKING

from protocols.http2.frames import LARGEST_FRAME
from protocols.http2.server_session import ServerSession
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.calls.sockets import Sockets

NO_FRAME = b"\xff" * (LARGEST_FRAME + 9)
"""Fills any frame that was cut off; what follows begins one that is longer than anybody may send."""
BROKEN_SHARE = 0.3
"""Share of garbage that is no frame; the rest is no message."""


def spoil_answers(sockets: "Sockets") -> None:
    """Let a server that is to send garbage answer with what is no message, or break off with what is no frame."""
    message, take, broken = ServerSession.message, ServerSession.take, set[ServerSession]()

    def on_message(session: ServerSession, id: int, answer: bytes) -> None:
        sent = sockets.spoil(running(sockets.world).name, answer)
        if sent is not answer and sockets.chance.random() < BROKEN_SHARE:
            broken.add(session)
        message(session, id, sent)

    def on_take(session: ServerSession, answers: bool = True) -> bytes:
        data = take(session, answers)
        if session not in broken or not data:
            return data
        broken.remove(session)
        return data[: sockets.chance.randrange(len(data))] + NO_FRAME

    patch(ServerSession, "message", on_message)
    patch(ServerSession, "take", on_take)
