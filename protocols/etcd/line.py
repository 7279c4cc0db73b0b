"""What carries calls to a member: a connection of ours. LineChannel need not know more of it than this."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import grpc

LOST = "the connection to the store broke"

Heard = Callable[[int, int, bytes], None]
"""Of call number N: kind, body. The kind is OK for a message, ERROR for the end, as frames.py has them."""


class Line(Protocol):
    """An open connection."""

    @property
    def draining(self) -> bool:
        """New calls need another one; those under way may finish."""

    def send(self, number: int, method: str, body: bytes, last: bool) -> None:
        """The first message of a number begins its call; `last`: it is the only one."""

    def cancel(self, number: int) -> None:
        """Nobody waits for this call any more."""

    def pause(self, pause: bool) -> None:
        """Read no more from the socket, or read on."""

    def close(self) -> None: ...


Dial = Callable[[Heard, Callable[[], None]], Awaitable[Line]]
"""Open a connection; the callables hear what comes over it, and its end. Raises OSError."""


def rpc_error(code: str, text: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode[code], grpc.aio.Metadata(), grpc.aio.Metadata(), text)
