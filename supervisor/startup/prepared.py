"""The parts of a start: the API's reserved port, the lock on settings, and the prepared plane."""

import errno
import fcntl
import os
import socket
from pathlib import Path

import msgspec

from protocols.process.settings import Settings
from supervisor.base.errors import PortTaken
from supervisor.base.groups import ChildSpec
from supervisor.base.options import LOOPBACK
from supervisor.root.lock import SupervisorLocks


class Reservation:
    """A bound socket that never listens: API processes bind beside it with SO_REUSEPORT, other users cannot."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.port: int = sock.getsockname()[1]

    def release(self) -> None:
        self._socket.close()


def reserve(port: int, remembered: int = 0, host: str = LOOPBACK) -> Reservation:
    """Reserve `port` of an address; 0 takes the `remembered` one if it is free, else any. Raises PortTaken."""
    if port == 0 and remembered:
        try:
            return reserve(remembered, host=host)
        except PortTaken:
            pass
    try:
        with _socket(host) as probe:  # without SO_REUSEPORT, this fails beside any other socket
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            port = probe.getsockname()[1]
        return Reservation(_bind(host, port))
    except OSError as error:
        mend = "mend --bind-address" if error.errno == errno.EADDRNOTAVAIL else "choose another with --port"
        raise PortTaken(f"port {port} on {host} cannot be used: {error.strerror}; {mend}") from None


def _socket(host: str) -> socket.socket:
    """Make a socket as the API processes do: one of IPv6 does not accept IPv4."""
    if ":" not in host:
        return socket.socket()
    sock = socket.socket(socket.AF_INET6)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def _bind(host: str, port: int) -> socket.socket:
    sock = _socket(host)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


class Prepared(msgspec.Struct, frozen=True):
    """A plane, or one group of it, ready to start."""

    name: str
    group: str
    """Empty for a whole plane."""
    settings: Settings
    specs: tuple[ChildSpec, ...]
    lock: SupervisorLocks
    port: Reservation | None
    """Reserved by the group that runs the API processes."""
    settings_file: Path
    """The file that its actors read: of the whole plane, or of a group whose feature gates differ on purpose."""

    def release(self) -> None:
        if self.port:
            self.port.release()
        self.lock.release()

    def hand_over(self) -> None:
        """Leave port and locks to a fork of this process, which calls `lock.take_over`."""
        if self.port:
            self.port.release()
        self.lock.hand_over()


class SettingsLock:
    """Held while settings are agreed on and saved, since groups may start at the same time."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / "settings.lock"
        self._descriptor = -1

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor that runs this one as an actor."""

    run_dir: Path
    supervisor: str
    instance: str
