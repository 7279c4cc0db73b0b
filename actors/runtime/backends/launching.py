"""The runtime's handle on its launcher process: started early, started again when it died."""

import logging
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from actors.runtime.model.errors import LauncherGone

_HOME = Path(__file__).parents[3]
_START = (
    "import sys; sys.path.append(sys.argv[1]); from actors.runtime.shim.launcher import main; main(int(sys.argv[2]))"
)
_END_S = 2.0

_LOG = logging.getLogger("runtime")


class LauncherHandle:
    """Orders are queued in the socket, so the launcher need not be up when the first one is given."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Raises LauncherGone when the process cannot be made."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        descriptor = str(theirs.fileno())
        command = [sys.executable, "-I", "-S", "-c", _START, str(_HOME), descriptor]
        try:
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), start_new_session=True, cwd="/")
        except OSError as error:
            ours.close()
            raise LauncherGone(f"cannot start the container launcher: {error.strerror}") from None
        finally:
            theirs.close()
        self._control = ours

    def order(self, directory: Path, channel: socket.socket) -> None:
        """Have a shim made in `directory` with `channel` as its line to us. Raises LauncherGone."""
        if not self._send(directory, channel):
            _LOG.warning("the container launcher is gone and is started again")
            self.close()
            self.start()
            if not self._send(directory, channel):
                raise LauncherGone("the container launcher does not take orders; try again")

    def close(self) -> None:
        """It ends with its socket; its shims stay."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._control = None

    def _send(self, directory: Path, channel: socket.socket) -> bool:
        if self._control is None:
            return False
        message = msgspec.json.encode({"directory": str(directory)})
        try:
            socket.send_fds(self._control, [message], [channel.fileno()])
        except BlockingIOError:
            raise LauncherGone("the container launcher has too many orders; try again") from None
        except OSError:
            return False
        return True
