"""Messages between a shim and the runtime: one JSON object per packet of a SOCK_SEQPACKET unix socket.

From the runtime: `{"op": "go" | "adopt" | "signal" | "kill" | "reopen" | "exec" | "kill_exec" | "attach" | "detach" |
"close_stdin", ...}`; exec and attach come with descriptors.
From the shim: `{"kind": "ready" | "started" | "failed" | "exit" | "reply" | "exec_exit", ...}`.
"""

import contextlib
import json
import socket
from typing import Any

PACKET = 256 * 1024
"""Largest message either side reads; the kernel's send buffer refuses larger ones before."""

Message = dict[str, Any]


def receive(connection: socket.socket) -> tuple[Message | None, list[int]]:
    """The next message and the descriptors sent with it; (None, []) when the peer is gone or talks nonsense."""
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, PACKET, 3, socket.MSG_CMSG_CLOEXEC)
        message = json.loads(data) if data else None
    except (OSError, ValueError, RecursionError):
        return None, []
    return (message if isinstance(message, dict) else None), descriptors


def send(connection: socket.socket | None, message: Message, descriptors: tuple[int, ...] = ()) -> None:
    """Never waits: a runtime that is gone, or does not read, learns the same from the files when it adopts."""
    if connection is not None:
        with contextlib.suppress(OSError):
            data = json.dumps(message).encode()
            if descriptors:
                socket.send_fds(connection, [data], list(descriptors), socket.MSG_DONTWAIT)
            else:
                connection.send(data, socket.MSG_DONTWAIT)
