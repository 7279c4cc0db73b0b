"""Clients that read nothing of what was written to them.

The kernel counts what a TCP client acknowledged: of a slow one the size of the transport's buffer may stay the same for
a long time, since megabytes wait in the kernel.
"""

import asyncio
import socket
import struct

TCP_INFO = struct.Struct("=120xQ16xI")
"""tcpi_bytes_acked and tcpi_notsent_bytes in struct tcp_info of linux/tcp.h, which only ever grows at its end."""


class Progress:
    """Bytes that a client acknowledged, seen by whoever asks again and again."""

    def __init__(self, transport: asyncio.Transport, now: float) -> None:
        self._transport, self._since, self._read = transport, now, -1

    def stalled_s(self, now: float) -> float:
        """Return for how many seconds, as far as this was called, the client read nothing although something waits."""
        waiting, read = _state(self._transport)
        if not waiting or read != self._read:
            self._since, self._read = now, read
        return now - self._since


def _state(transport: asyncio.Transport) -> tuple[int, int]:
    """Return the bytes that wait for the client, and a number that changes when it reads."""
    buffered = transport.get_write_buffer_size()
    try:
        info = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
        acknowledged, unsent = TCP_INFO.unpack(info)
    except (OSError, AttributeError, struct.error):  # no TCP, or closed
        return buffered, buffered
    return buffered + unsent, acknowledged
