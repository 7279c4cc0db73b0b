"""The API's port: checked before anything starts, and kept reserved while the plane lives."""

import errno
import socket

from supervisor.errors import PortTaken

HOST = "127.0.0.1"


class Reservation:
    """A bound socket that never listens: API processes bind beside it with SO_REUSEPORT, strangers cannot."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.port: int = sock.getsockname()[1]

    def release(self) -> None:
        self._socket.close()


def reserve(port: int, remembered: int = 0, host: str = HOST) -> Reservation:
    """Reserve `port` of one address; 0 takes the remembered one if it is still free, else any. Raises PortTaken."""
    if port == 0 and remembered:
        try:
            return reserve(remembered, host=host)
        except PortTaken:
            pass
    try:
        with _socket(host) as probe:  # without SO_REUSEPORT this fails beside anybody else's socket
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            port = probe.getsockname()[1]
        return Reservation(_bind(host, port))
    except OSError as error:
        mend = "mend --bind-address" if error.errno == errno.EADDRNOTAVAIL else "choose another with --port"
        raise PortTaken(f"port {port} on {host} cannot be used: {error.strerror}; {mend}") from None


def _socket(host: str) -> socket.socket:
    """As the API processes make theirs: one of IPv6 takes nothing of IPv4."""
    if ":" not in host:
        return socket.socket()
    made = socket.socket(socket.AF_INET6)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return made


def _bind(host: str, port: int) -> socket.socket:
    sock = _socket(host)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
