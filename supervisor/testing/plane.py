"""A plane on free ports below a temporary root that ends with the process that started it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from protocols.process.layout import SYSTEM_CDI, Layout, layout
from protocols.process.mountinfo import mounts_below
from protocols.process.settings import load_settings
from supervisor.base.errors import SupervisorError, UsageError
from supervisor.client.connection import Asking, ask
from supervisor.root.leftovers import unmount_below

PREFIX = "np"
SHORT = "/tmp"
"""Directory of temporary roots: sockets below a long TMPDIR would have too long paths."""
FREE_PORTS = ("--port", "0", "--metrics-port", "0", "--healthz-port", "0")
QUICK = ("--store-sync", "normal")
"""A test's plane need not survive a power failure."""
OF_THE_ROOT = ("NODEPLANE_ROOT", "NODEPLANE_KUBELET_DIR", "NODEPLANE_JOIN")
"""Variables of another plane, which a plane of its own must not take over."""
START_S, STOP_S, POLL_S = 60.0, 45.0, 0.1
LINES = 20
PROGRAMS = "programs"
"""Directory of the root with records of programs that end with the process that started the plane."""
PROGRAM = "nodeplane: "
"""Prefix of its messages, which the message of the error has once."""


class PlaneNotStarted(SupervisorError, grpc="UNAVAILABLE"):
    """Raised when a plane for a test ends while it starts, or does not become ready in time."""


class FlagsRejected(PlaneNotStarted, grpc=UsageError.grpc):
    """Raised when `up` rejects the flags or variables of a plane for a test; its message says all."""

    exit_code: ClassVar[int] = UsageError.exit_code


class TestPlane:
    """A plane below a temporary root: `start` it; `stop` ends every process of it and removes the root.

    Call `start` in a thread that lives as long as the plane, such as the main one: the kernel ends the plane with it.
    """

    __test__ = False  # pytest collects no class of this name

    def __init__(self, flags: Sequence[str] = (), root: str = "") -> None:
        self.temporary = not root
        self.root = Path(os.path.abspath(root) if root else tempfile.mkdtemp(prefix=PREFIX, dir=SHORT))
        self.output = self.root / "up.log"
        self._flags = list(flags)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def layout(self) -> Layout:
        """The paths of the running plane."""
        return load_settings(layout(str(self.root)).settings).layout

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def reaped(self, pid: int, status: int) -> None:
        """Record the exit status of a process that the caller has waited for."""
        if self._process and self._process.pid == pid:
            self._process.returncode = os.waitstatus_to_exitcode(status)

    def start(self, timeout: float = START_S, stopped: Callable[[], bool] = lambda: False) -> None:
        """Return when every actor serves. Raises PlaneNotStarted, also when `stopped` becomes true, SettingsInvalid."""
        layout(str(self.root)).check_socket_paths()
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            path = self.root / "ready.sock"
            path.unlink(missing_ok=True)
            ready.bind(str(path))
            ready.settimeout(POLL_S)
            self._process = self._spawn(path)
            self._wait_ready(ready, time.monotonic() + timeout, stopped)

    def _spawn(self, ready: Path) -> "subprocess.Popen[bytes]":
        removed = str(self.root) if self.temporary else ""
        command = [sys.executable, "-P", "-m", "supervisor.testing.tethered", str(os.getpid()), removed, "up"]
        with self.output.open("wb") as output:
            return subprocess.Popen(
                [*command, *FREE_PORTS, *QUICK, *self._flags, "--root", str(self.root)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**without(os.environ, OF_THE_ROOT), "NOTIFY_SOCKET": str(ready)},
                start_new_session=True,
            )

    def _wait_ready(self, ready: socket.socket, deadline: float, stopped: Callable[[], bool]) -> None:
        while self.runs() and time.monotonic() < deadline and not stopped():
            try:
                if ready.recv(4096).startswith(b"READY=1"):
                    return
            except TimeoutError:
                continue
        code = self._process.poll() if self._process else None
        reason = "the plane is not ready in time" if code is None else "the plane ended while it started"
        lines = last_lines(self.output.read_text(errors="replace"))
        self.stop(remove=False)
        if code == FlagsRejected.exit_code and lines:
            raise FlagsRejected("; ".join(lines))
        raise PlaneNotStarted("; ".join(["stopped" if stopped() else reason, *lines]))

    def stop(self, *, remove: bool = True) -> None:
        """End the plane with its containers; `remove` a temporary root as well."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        unmount_below(self.root)
        if remove and self.temporary:
            remove_root(self.root)

    @property
    def programs(self) -> Path:
        """The directory for records of programs that must not outlive this process; see testing.programs."""
        return self.root / PROGRAMS

    def environment(self) -> dict[str, str]:
        """Return the variables by which programs find this plane."""
        return environment_of(self.layout)


def environment_of(where: Layout) -> dict[str, str]:
    """Return the variables by which programs find a node and its API, with the rights of the administrator.

    PATH is that of this process, with `nodeplane` and kubectl at its end.
    """
    settings = load_settings(where.settings)
    endpoints = ask(where, Asking.status).endpoints
    return {
        "KUBECONFIG": str(layout(str(where.plane)).kubeconfig),
        "NODEPLANE_ROOT": str(where.root),
        "NODEPLANE_KUBELET_DIR": str(where.kubelet),
        "NODEPLANE_API_URL": settings.api_url,
        "NODEPLANE_METRICS_URL": endpoints.get("metrics", ""),
        "NODEPLANE_POD_RESOURCES": str(where.pod_resources_socket),
        "CONTAINER_RUNTIME_ENDPOINT": settings.runtime_endpoint,
        "CDI_ROOT": str(where.cdi if settings.runtime_embedded else SYSTEM_CDI[-1]),
        "NODE_NAME": settings.node_name,
        "PATH": search_path(),
    }


def search_path() -> str:
    """Return PATH, with the directory of this installation last: `nodeplane` and kubectl are found there."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def last_lines(text: str) -> list[str]:
    """Return the last lines of an output, each once: a plane that waits says every few seconds for what."""
    lines = [line.removeprefix(PROGRAM).strip() for line in text.splitlines()]
    return list(dict.fromkeys(filter(None, lines)))[-LINES:]


def remove_root(root: Path) -> None:
    """Remove a root, unless something is still mounted below it: that would be emptied too."""
    if not mounts_below(root):
        shutil.rmtree(root, ignore_errors=True)


def without(variables: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return variables of the environment without some."""
    return {name: value for name, value in variables.items() if name not in names}
