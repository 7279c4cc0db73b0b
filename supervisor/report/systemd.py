"""systemd's protocol of readiness and watchdog, over NOTIFY_SOCKET and without a library.

A socket that is gone or full loses the message, as systemd's own timeouts act then. Readiness is sent again with the
next message: `systemctl start` waits for it.
"""

import os
import socket
from collections.abc import Mapping


class Notifier:
    """systemd's readiness and watchdog protocol; does nothing without NOTIFY_SOCKET."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._status = self._unsent = ""
        self.watchdog_s = _watchdog(environment)

    def ready(self, status: str) -> None:
        self._status = status
        self._unsent = f"READY=1\nSTATUS={status}"
        self._send()

    def status(self, status: str) -> None:
        """Set the line that `systemctl status` shows. Called once a second, it also sends readiness that was lost."""
        if self._unsent:
            self.ready(status)
        elif status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def alive(self) -> None:
        """Feed the watchdog. Call it only on real progress, so that a hung supervisor is restarted."""
        if self.watchdog_s:
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, text: str = "") -> None:
        """Send what was lost, then `text`."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                for message in filter(None, (self._unsent, text)):
                    sock.sendto(message.encode(), self._address)
                    self._unsent = ""
        except OSError:
            return  # systemd is busy: its timeout acts


def _watchdog(environment: Mapping[str, str]) -> float:
    meant_for = environment.get("WATCHDOG_PID", "")
    if meant_for not in ("", str(os.getpid())):
        return 0.0
    try:
        return int(environment.get("WATCHDOG_USEC", "0")) / 1e6
    except ValueError:
        return 0.0
