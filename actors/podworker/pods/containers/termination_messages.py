"""Termination messages: read from a container's message file, or from its log, once it has ended."""

import os
import stat
from pathlib import Path

import msgspec

from actors.podworker.model.dependencies import NodeInfo
from actors.podworker.pods.volumes.paths import pod_directory, pod_log_directory
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.messages.pleg import ContainerStatus, PodStatus

DEFAULT_PATH = "/dev/termination-log"
LONGEST, LONGEST_OF_ALL = 4096, 12 * 1024
LOG_BYTES, LOG_LINES = 2048, 80
ON_ERROR = "FallbackToLogsOnError"


def message_path(container: ContainerSpec) -> str:
    """Return the path of the message file in the container."""
    return str(container.raw.get("terminationMessagePath") or DEFAULT_PATH)


def message_file(root: Path, uid: str, container: str, attempt: int) -> Path:
    """Return the path on the host, which is mounted into the container."""
    return pod_directory(root, uid) / "containers" / container / f"{attempt}.message"


def make_message_file(root: Path, uid: str, container: str, attempt: int) -> None:
    """Create the message file, writable by any user, and remove those of attempts that are no longer shown."""
    path = message_file(root, uid, container, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o666)
    message_file(root, uid, container, attempt - 3).unlink(missing_ok=True)


class TerminationMessages:
    """Termination messages of one pod, each read once."""

    def __init__(self, node_info: NodeInfo) -> None:
        self._node_info = node_info
        self._known: dict[str, str] = {}

    def fill(self, spec: PodSpec, status: PodStatus) -> PodStatus:
        """Add the messages of ended containers to `status`; a message from the runtime takes precedence."""
        if not any(c.state == runtime_status.EXITED and not c.message for c in status.containers):
            return status
        containers = {c.name: c for c in (*spec.containers, *spec.ephemeral)}
        filled = tuple(self._filled(spec, containers.get(c.name), c) for c in status.containers)
        self._known = {c.id: self._known[c.id] for c in filled if c.id in self._known}
        return msgspec.structs.replace(status, containers=filled)

    def _filled(self, spec: PodSpec, container: ContainerSpec | None, run: ContainerStatus) -> ContainerStatus:
        if container is None or run.state != runtime_status.EXITED or run.message:
            return run
        if run.id not in self._known:
            self._known[run.id] = self._read(spec, container, run)
        message = self._known[run.id]
        return msgspec.structs.replace(run, message=message) if message else run

    def _read(self, spec: PodSpec, container: ContainerSpec, run: ContainerStatus) -> str:
        room = min(LONGEST, LONGEST_OF_ALL // max(1, len(spec.containers)))
        message = _tail(message_file(self._node_info.root, spec.uid, run.name, run.attempt), LONGEST)[:room]
        if not message and run.exit_code != 0 and container.raw.get("terminationMessagePolicy") == ON_ERROR:
            log = pod_log_directory(self._node_info.logs, spec) / run.name / f"{run.attempt}.log"
            message = _plain(_tail(log, 2 * LOG_BYTES))[-min(room, LOG_BYTES) :]
        return message.decode(errors="replace")


def _tail(path: Path, size: int) -> bytes:
    """Return the last bytes of a regular file. Anything else is ignored: the container controls what is there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            return b""
        return os.pread(descriptor, size, max(0, info.st_size - size))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _plain(log: bytes) -> bytes:
    """Return the text of CRI log lines."""
    lines = [line.split(b" ", 3) for line in log.splitlines(keepends=True)[-LOG_LINES:]]
    return b"".join(parts[3] if parts[2] == b"F" else parts[3].rstrip(b"\n") for parts in lines if len(parts) == 4)
