"""Handle of the launcher: the small process that forks shims and holders of namespaces."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from actors.runtime.model.errors import LauncherGone
from actors.runtime.shim.system import open_read_only

_HOME = Path(__file__).parents[3]
_START = (
    "import sys; sys.path.append(sys.argv[1]); from actors.runtime.shim.launcher import main; main(int(sys.argv[2]))"
)
_END_S = 2.0

_LOG = logging.getLogger("runtime")


class LauncherHandle:
    """Handle of the launcher process. Requests queue in its socket, so it need not be up for the first one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Start the process. Raises LauncherGone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            self._process = _spawn(theirs.fileno())
        except OSError as error:
            ours.close()
            raise LauncherGone(f"cannot start the container launcher: {error.strerror}") from None
        finally:
            theirs.close()
        self._control = ours

    def launch_shim(self, directory: Path, channel: socket.socket) -> None:
        """Fork a shim in `directory` with `channel` as its connection to the runtime. Raises LauncherGone."""
        self._request({"directory": str(directory)}, channel)

    def launch_holder(self, ipc: bool, sysctls: dict[str, str], channel: socket.socket) -> None:
        """Fork a holder of namespaces with `channel` as its connection to the runtime. Raises LauncherGone."""
        self._request({"holder": {"ipc": ipc, "sysctls": sysctls}}, channel)

    def close(self) -> None:
        """Close the socket, which ends the launcher; its shims live on."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._control = None

    def _request(self, message: dict[str, object], channel: socket.socket) -> None:
        if not self._send(message, channel):
            _LOG.warning("launcher restarted: its socket was closed")
            self.close()
            self.start()
            if not self._send(message, channel):
                raise LauncherGone("the container launcher does not accept requests; try again")

    def _send(self, message: dict[str, object], channel: socket.socket) -> bool:
        if self._control is None:
            return False
        try:
            socket.send_fds(self._control, [msgspec.json.encode(message)], [channel.fileno()])
        except BlockingIOError:
            raise LauncherGone("the container launcher has too many pending requests; try again") from None
        except OSError:
            return False
        return True


def _spawn(control: int) -> subprocess.Popen[bytes]:
    """Start the interpreter, where possible from a read-only mount. Raises OSError.

    A container can execute or open it as /proc/PID/exe of a process that joins its namespaces (CVE-2019-5736 of runc),
    and must not overwrite the host's file.
    """
    command = [sys.executable, "-I", "-S", "-c", _START, str(_HOME), str(control)]
    with contextlib.ExitStack() as opened:
        sealed: list[int] = []
        with contextlib.suppress(OSError):  # not permitted: then containers run as this user, and may write what it may
            sealed.append(open_read_only("/proc/self/exe"))
            opened.callback(os.close, sealed[0])
        program = f"/proc/self/fd/{sealed[0]}" if sealed else sys.executable
        return subprocess.Popen(
            command, executable=program, pass_fds=(control, *sealed), start_new_session=True, cwd="/"
        )
