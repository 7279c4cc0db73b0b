"""TLS connections of a server: asyncio's transport over OpenSSL on the socket itself.

The loop's own TLS passes each byte through buffers in memory: it costs a third more memory for an open connection, and
a fifth more CPU for a short write. Here OpenSSL reads and writes the socket, and the loop only reports that the socket
is ready, so any loop will do.

- A write goes to the socket at once; the socket's rest waits, and the protocol is paused above the high-water mark.
- In one turn of the loop a connection reads or writes at most BURST records.
- An end of input closes the connection unless `eof_received` returns True: what is written is still sent.
- After close_notify the client's input is discarded until it closes too, since closing a socket with unread input
  would reset the connection, and the last response with it; likewise after the alert of a handshake that failed.

`asyncio.BufferedProtocol` is not supported.
"""

import asyncio
import hashlib
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from socket import SHUT_WR, socket
from typing import Any

from protocols.serving.turns import Turns

RECORD = 16 * 1024
"""Largest plaintext of a TLS record, and as much as OpenSSL returns at once."""
BURST = 16
"""Records that a connection may read or write in one turn of the loop."""
HIGH_WATER = 64 * 1024
"""Unsent bytes above which the protocol is paused, unless it sets other limits."""
CLOSE_S = 30.0
"""Seconds from `close` on for what is unsent and for the client's own close."""
ALERT_S = 1.0
"""Seconds in which a client may read why its handshake failed."""
FINGERPRINT = "fingerprint"
"""Name in get_extra_info: SHA-256 of the client's certificate in hexadecimal; empty without one."""
READ, WRITE = 1, 2
Data = bytes | bytearray | memoryview
_NOBODY = asyncio.Protocol()


async def accept_tls(accepted: socket, context: ssl.SSLContext, protocol: asyncio.Protocol, turns: Turns) -> None:
    """Shake hands and connect `protocol`. Takes the socket over, which does not block, and closes it on failure.

    Raises OSError, of which SSLError is one. The deadline is the caller's.
    """
    tls = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=False)
    try:
        await _shake_hands(tls)
        TlsTransport(tls, protocol, turns)
    except ssl.SSLError:
        await _let_alert_arrive(tls)
        raise
    except BaseException:
        tls.close()
        raise


async def _shake_hands(tls: ssl.SSLSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            tls.do_handshake()
            return
        except ssl.SSLWantReadError:
            await _ready(tls.fileno(), loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(tls.fileno(), loop.add_writer, loop.remove_writer)


async def _let_alert_arrive(tls: ssl.SSLSocket) -> None:
    """Discard what the client sends until it closes, ALERT_S and a burst at most, and close.

    OpenSSL has sent the alert that names the reason, but a client of TLS 1.3 goes on with its request at once: it would
    find the connection closed while it writes, and never read.
    """
    loop = asyncio.get_running_loop()
    with suppress(OSError), closing(tls):  # TimeoutError is one
        tls.shutdown(SHUT_WR)  # from here on the socket is read without TLS
        async with asyncio.timeout(ALERT_S):
            for _ in range(BURST):
                await _ready(tls.fileno(), loop.add_reader, loop.remove_reader)
                if not tls.recv(RECORD):
                    return


async def _ready(number: int, watch: Callable[..., object], unwatch: Callable[[int], object]) -> None:
    """Wait until the descriptor is ready. It may be reported more than once before the waiting task runs."""
    ready = asyncio.Event()
    watch(number, ready.set)
    try:
        await ready.wait()
    finally:
        unwatch(number)


class TlsTransport(asyncio.Transport):
    """An open connection after its handshake. `peercert` of get_extra_info is decoded once; its owner may shrink it."""

    __slots__ = (
        "_again", "_closing", "_high", "_loop", "_lost", "_low", "_number", "_parted", "_paused", "_protocol",
        "_queue", "_read_waits", "_reading", "_timer", "_tls", "_turns", "_unsent", "_watched", "_write_waits",
    )  # fmt: skip

    def __init__(self, tls: ssl.SSLSocket, protocol: asyncio.BaseProtocol, turns: Turns) -> None:
        der = tls.getpeercert(True)
        fingerprint = hashlib.sha256(der).hexdigest() if der else ""
        super().__init__({"socket": tls, "ssl_object": tls, "peercert": tls.getpeercert(), FINGERPRINT: fingerprint})
        self._loop, self._tls, self._number, self._turns = asyncio.get_running_loop(), tls, tls.fileno(), turns
        self.set_protocol(protocol)
        self.set_write_buffer_limits()
        self._queue: deque[Data] | None = None
        """Unsent data. After a write that waits OpenSSL wants the same bytes again: they stay first."""
        self._unsent = self._watched = 0
        self._timer: asyncio.TimerHandle | None = None
        self._reading, self._paused = True, False
        self._again = self._closing = self._parted = self._lost = False
        self._read_waits = self._write_waits = False
        """Reading waits for a writable socket, writing for a readable one: for the sake of TLS' own messages."""
        protocol.connection_made(self)
        self._watch()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._tls.context
        if name in ("peername", "sockname"):
            with suppress(OSError):  # closed, or the client is gone
                return self._tls.getpeername() if name == "peername" else self._tls.getsockname()
        return super().get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol: Any = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False
        self._watch()

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._read_again()
            self._watch()

    def write(self, data: Data) -> None:
        """Send at once what the socket takes. Data of a closing connection is dropped."""
        if self._closing or not data:
            return
        if not isinstance(data, bytes):  # its owner may change it
            data = bytes(data)
        rest = self._send(data) if self._queue is None else data
        if rest and not self._lost:
            self._hold(rest)

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def close(self) -> None:
        if self._closing:
            return
        self._closing, self._reading = True, False
        self._timer = self._loop.call_later(CLOSE_S, self.abort)
        if self._queue is None:
            self._part()
        self._watch()

    def abort(self) -> None:
        self._lose(None)

    def _watch(self) -> None:
        """Have the loop report what this connection can go on with."""
        reads = (self._reading or self._parted or self._write_waits) and not self._read_waits and not self._again
        writes = self._read_waits or (
            (self._queue is not None or (self._closing and not self._parted)) and not self._write_waits
        )
        wanted = 0 if self._lost else READ * reads + WRITE * writes
        changed, self._watched = wanted ^ self._watched, wanted
        if changed & READ and wanted & READ:
            self._loop.add_reader(self._number, self._on_readable)
        elif changed & READ:
            self._loop.remove_reader(self._number)
        if changed & WRITE and wanted & WRITE:
            self._loop.add_writer(self._number, self._on_writable)
        elif changed & WRITE:
            self._loop.remove_writer(self._number)

    def _on_readable(self) -> None:
        if self._again:
            return
        if self._turns.over():
            self._read_again()
            self._watch()
        else:
            self._proceed()

    def _proceed(self) -> None:
        if self._write_waits:
            self._write_waits = False
            self._flush()
        self._read()
        self._watch()

    def _on_writable(self) -> None:
        if self._read_waits:
            self._read_waits = False
            self._read()
        self._flush()
        self._watch()

    def _read(self) -> None:
        """Deliver what arrived until nothing is left, at most a burst; the rest in the next turn.

        The loop cannot be asked for the rest: it does not know what OpenSSL holds, and uvloop reports a connection that
        was reset only once, although input may precede the reset.
        """
        for _ in range(BURST):
            if not (self._reading or self._parted):
                return
            data = self._receive()
            if data is None:
                return
            if not data:
                self._end_input()
            elif not self._parted:
                self._deliver(data)
        self._read_again()

    def _read_again(self) -> None:
        self._again = True
        self._turns.later(self._go_on)

    def _go_on(self) -> None:
        self._again = False
        self._proceed()

    def _receive(self) -> bytes | None:
        """Return at most a record, empty at the end of input; None if there is nothing to go on with."""
        try:
            return self._tls.recv(RECORD)
        except (ssl.SSLWantReadError, BlockingIOError):
            return None
        except ssl.SSLWantWriteError:
            self._read_waits = True
        except OSError as error:
            self._lose(error)
        return None

    def _deliver(self, data: bytes) -> None:
        """An error of the protocol ends the connection, and the loop reports it."""
        try:
            self._protocol.data_received(data)
        except BaseException as error:
            self._lose(error)
            raise

    def _end_input(self) -> None:
        if self._parted:
            self._lose(None)
            return
        self._reading = False
        if not self._protocol.eof_received():
            self.close()

    def _send(self, data: Data) -> Data:
        """Return what the socket did not take, or what is more than a burst."""
        for _ in range(BURST):
            try:
                sent = self._tls.send(data)
            except ssl.SSLWantWriteError:
                break
            except ssl.SSLWantReadError:
                self._write_waits = True
                break
            except OSError as error:
                self._lose(error)
                return b""
            if sent == len(data):
                return b""
            data = memoryview(data)[sent:]
        return data

    def _hold(self, data: Data) -> None:
        if self._queue is None:
            self._queue = deque()
        self._queue.append(data)
        self._unsent += len(data)
        self._watch()
        if self._unsent > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def _flush(self) -> None:
        """Send what waits, at most a burst."""
        queue, least = self._queue, self._unsent - BURST * RECORD
        while queue and self._unsent > least:
            data = queue[0]
            rest = self._send(data)
            if self._lost:
                return
            self._unsent -= len(data) - len(rest)
            if rest:
                queue[0] = rest
                break
            queue.popleft()
        if not queue:
            self._queue = None
            if self._closing and not self._parted:
                self._part()
        if self._paused and self._unsent <= self._low:
            self._paused = False
            self._protocol.resume_writing()

    def _part(self) -> None:
        """Send close_notify; from then on the socket is read without TLS, and its input discarded."""
        try:
            self._tls.unwrap()
        except ssl.SSLWantWriteError:
            return
        except OSError:  # SSLWantReadError is the rule: the client's close_notify comes later
            pass
        else:
            self._lose(None)
            return
        with suppress(OSError):
            self._tls.shutdown(SHUT_WR)
        self._parted = True

    def _lose(self, error: BaseException | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._reading, self._queue, self._unsent = False, None, 0
        self._watch()
        if self._timer is not None:
            self._timer.cancel()
        self._loop.call_soon(self._end, None if self._parted else error)

    def _end(self, error: BaseException | None) -> None:
        protocol, self._protocol = self._protocol, _NOBODY
        try:
            protocol.connection_lost(error)
        finally:
            self._tls.close()
