"""The channel protocol of exec and attach: websocket messages whose first byte says which stream the rest belongs to.

`v4.channel.k8s.io` has five channels; `v5.channel.k8s.io` adds a message that ends one of them, so that a command sees
the end of its input. The last thing a server sends is a Status on the error channel, which carries the exit code.
"""

import msgspec

from protocols.process.files import UNREADABLE

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
CHANNEL_PROTOCOLS = (V5, V4)
TUNNEL = "SPDY/3.1+portforward.k8s.io"
"""Port-forward: the bytes of a SPDY connection, in binary messages."""
LARGEST_MESSAGE = 4 * 1024 * 1024
"""Largest message either side takes; clients send at most 32 KiB at once."""


class Size(msgspec.Struct, frozen=True):
    """Size of a terminal, as sent on the resize channel."""

    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


def read_size(data: bytes) -> Size | None:
    """Return a terminal's size; None if the text is not one."""
    try:
        size = msgspec.json.decode(data, type=Size)
    except UNREADABLE:
        return None
    return size if 0 <= size.width < 65536 and 0 <= size.height < 65536 else None


def exit_status(code: int) -> bytes:
    """Return the Status of a command that has run."""
    if code == 0:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    return msgspec.json.encode(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    )


def failure_status(message: str) -> bytes:
    """Return the Status of a command that could not be run or watched to its end."""
    error = {"reason": "InternalError", "code": 500}
    return msgspec.json.encode({"metadata": {}, "status": "Failure", "message": message, **error})
