"""Who comes in at the front door, and how many may."""

import socket
import struct
from pathlib import Path

import msgspec

CREDENTIALS = struct.Struct("3i")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What every HTTP/2 client says first."""


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end, as the kernel says. pid 0: it lives in a pid namespace that we cannot see."""

    pid: int
    uid: int
    gid: int
    command: str = ""
    connection: str = ""
    """Of this connection only."""

    @property
    def client(self) -> str:
        """Whose share of rate and places this connection uses."""
        return f"{self.pid}/{self.uid}" if self.pid else self.connection

    def __str__(self) -> str:
        return f"pid={self.pid} uid={self.uid} gid={self.gid} command={self.command or '?'}"


UNKNOWN = Peer(0, -1, -1)


class EntranceLimits(msgspec.Struct, frozen=True):
    connections: int = 4096
    """Open at once, of all clients together; fewer where the process may not open so many files."""
    per_client: int = 256
    preface_s: float = 10.0
    """Within this a client has to say that it speaks HTTP/2."""
    held: int = 65536
    """Bytes kept for a side that does not read, before the other side is not read from either."""


def peer_of(connected: socket.socket, connection: str) -> Peer:
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, gid = CREDENTIALS.unpack(raw)
    return Peer(pid, uid, gid, _command(pid), connection)


def _command(pid: int) -> str:
    """The process's name: whoever it belongs to chose it, so only letters of it are told."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace") if pid else ""
    except OSError:
        return ""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name.strip())
