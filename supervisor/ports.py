"""The API's port: checked before anything starts, and kept reserved while the plane lives."""

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


def reserve(port: int, remembered: int = 0) -> Reservation:
    """Reserve `port`; 0 takes the remembered one if it is still free, else any. Raises PortTaken."""
    if port == 0 and remembered:
        try:
            return reserve(remembered)
        except PortTaken:
            pass
    try:
        with socket.socket() as probe:  # without SO_REUSEPORT this fails beside anybody else's socket
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            port = probe.getsockname()[1]
        return Reservation(_bind(port))
    except OSError as error:
        raise PortTaken(f"port {port} on {HOST} cannot be used: {error.strerror}; choose another with --port") from None


def _bind(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((HOST, port))
    except OSError:
        sock.close()
        raise
    return sock
