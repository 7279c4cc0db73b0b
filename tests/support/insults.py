"""Everything a plane must bear from strangers on its sockets and command line, as small functions."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import zmq

from tests.support.commands import run_command
from tests.support.plane import Plane

Address = Path | int
"""A unix socket, or a port on 127.0.0.1."""

MIB = 1024 * 1024
TAKEN_S = 0.3
"""Who takes no more bytes for so long will take none: the rest is not sent."""
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ZMTP = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
"""A whole greeting of ZeroMQ's wire protocol, mechanism NULL."""
SUBSCRIBER = ZMTP + b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB"

GARBAGE = {
    "random": os.urandom(5_000),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a greeting": ZMTP[:20],
    "half a command": ZMTP + b"\x04\x30\x05READY\x0b",
    "a frame of 2^62 bytes": ZMTP + b"\x04\x06\x05READY" + b"\x02\x40" + bytes(7) + b"x" * 1000,
    "a subscription of 1 MiB": SUBSCRIBER + b"\x02" + (MIB + 1).to_bytes(8, "big") + b"\x01" + os.urandom(MIB),
    "half a gRPC header": HTTP2 + b"\0\0\0\x04\0\0\0\0\0" + b"\0\1\0\x01\x04\0\0\0\x01half",
    "a gRPC frame of 16 MiB": HTTP2 + b"\0\0\0\x04\0\0\0\0\0" + b"\xff\xff\xff\0\0\0\0\0\x01" + b"x" * 1000,
    "half a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(40),
    "zeros": bytes(1_000_000),
}

FRAMES = {
    "empty": b"",
    "no msgpack": b"\xc1" * 100,
    "deep": b"\x91" * 100_000,
    "no array": b"\x81\xa1a\x01",
    "unknown kind": b"\x92\x63\x01",
    "version 2": b"\x92\x14\x02",
    "half a request": b"\x97\x12\x01\xa1x",
    "no such method": b"\x97\x12\x01\xa3x:1\xa4what\xcd\x03\xe8\xc2\xc4\x00",
    "no such body": b"\x97\x12\x01\xa3x:2\xa7metrics\xcd\x03\xe8\xc2\xc4\x03\xc1\xc1\xc1",
    "huge number": b"\x97\x12\x01\xa3x:3\xa7metrics\xcf" + b"\xff" * 8 + b"\xc2\xc4\x00",
    "beat of nobody": b"\x94\x13\x01\xa4beat\xc4\x01\x80",
    "sync of nothing": b"\x97\x10\x01\x01\xa4none\x00\x00\x00",
    "sync of the future": b"\x97\x10\x01\x02\xa6health\xcf" + b"\xff" * 8 + b"\x00\x00",
}
"""What a peer that speaks ZeroMQ, but not our bus, may send to a ROUTER."""

LARGE = ("supervisor", "store", "apiserver-0", "runtime")
ODD_SUBSCRIPTIONS = [b"", b"\x01", b"\x01" + os.urandom(200), b"\x00never", b"\x77" * 5000, b"\x01" + bytes(100_000)]


def unix_sockets(plane: Plane) -> list[Path]:
    return sorted(path for path in plane.root.rglob("*") if path.is_socket())


def tcp_ports(plane: Plane) -> list[int]:
    """Every port its processes listen on: API, etcd API, metrics, streaming."""
    found = set()
    for pid in plane.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            open_ = psutil.Process(pid).net_connections("tcp")
            found |= {each.laddr.port for each in open_ if each.status == psutil.CONN_LISTEN}
    return sorted(found)


@contextlib.contextmanager
def shouted(address: Address, data: bytes) -> Iterator[socket.socket]:
    """A connection on which `data` was sent, or as much of it as was taken; left open and silent."""
    with _connected(address) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(data)
        yield sock


def _connected(address: Address) -> socket.socket:
    """Stream sockets but for the shims', which take packets."""
    if isinstance(address, int):
        open_ = socket.create_connection(("127.0.0.1", address), timeout=30)
        open_.settimeout(TAKEN_S)
        return open_
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        sock = socket.socket(socket.AF_UNIX, kind)
        sock.settimeout(30)
        try:
            sock.connect(str(address))
            sock.settimeout(TAKEN_S)
            return sock
        except OSError as error:
            sock.close()
            if error.errno != errno.EPROTOTYPE:
                raise
    raise OSError(errno.EPROTOTYPE, "neither stream nor packets", str(address))


@contextlib.contextmanager
def zmq_strangers(plane: Plane, huge: bytes = b"") -> Iterator[None]:
    """DEALERs that sent every one of FRAMES to each ROUTER of the plane, and `huge` to those of LARGE; odd subscribers
    on each PUB."""
    with contextlib.ExitStack() as held:
        context = zmq.Context()
        held.callback(context.term)
        for path in unix_sockets(plane):
            if path.suffix == ".rpc":
                large = [huge] if huge and path.stem in LARGE else []
                _shout(held, context.socket(zmq.DEALER), path, [*FRAMES.values(), *large])
            elif path.suffix == ".pub":
                _shout(held, context.socket(zmq.XSUB), path, ODD_SUBSCRIPTIONS)
        yield


def _shout(held: contextlib.ExitStack, sock: "zmq.Socket[bytes]", path: Path, frames: list[bytes]) -> None:
    held.callback(sock.close, linger=0)
    sock.setsockopt(zmq.SNDTIMEO, 1000)
    sock.connect(f"ipc://{path}")
    with contextlib.suppress(zmq.Again):
        for frame in frames:
            sock.send(frame)
        sock.send_multipart([b"one", b"two", b"three"])


def refused(*arguments: str, environment: dict[str, str] | None = None, timeout: float = 90) -> tuple[int, str]:
    """Exit code and the one line a nodeplane command that must fail says."""
    done = run_command(arguments, {**os.environ, **(environment or {})}, timeout)
    lines = done.stderr.splitlines()
    assert done.returncode in (1, 2), f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
    assert len(lines) == 1, f"{arguments} said {len(lines)} lines: {done.stderr}"
    assert done.stdout == ""
    return done.returncode, lines[0]
