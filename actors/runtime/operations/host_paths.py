"""Missing sources and mount points on the host, for mounts of containers on the host's files.

A mount point that the host lacks is made by the container's shim, and seen by everybody. It is recorded first, and
removed with the last container that mounts there. One with content stays, and one where a container of another runtime
mounts: to remove a directory ends the mounts on it in every namespace.
"""

import contextlib
import os
import stat
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from actors.runtime.model.containers import Container
from actors.runtime.model.errors import HostPathAway, InvalidRequest
from actors.runtime.spec.isolation import mount_targets, namespaces_allowed
from protocols.process.files import UNREADABLE, write_atomic
from protocols.process.mountinfo import mounts_of
from protocols.process.tasks import HangingCalls, TooManyHung
from protocols.wire import cri_pb2 as pb

FILE = "mount-points.json"
SOURCES_S = 10.0
SOURCES = HangingCalls("host paths", most=64)
"""A dead network file system never answers, and must not take the threads of other containers."""
MAX_SHOWN = 256


def make_sources(mounts: Sequence[pb.Mount]) -> None:
    """Create missing host paths as directories, as containerd does. Blocks; raises InvalidRequest."""
    for mount in mounts:
        if not mount.host_path or mount.HasField("image") or os.path.exists(mount.host_path):
            continue
        try:
            os.makedirs(mount.host_path, 0o755, exist_ok=True)
        except OSError as error:
            if namespaces_allowed():
                why = os.strerror(error.errno or 0).lower()
                raise InvalidRequest(f'mount "{mount.container_path}": host path "{mount.host_path}": {why}') from None


async def ready_sources(mounts: Sequence[pb.Mount]) -> None:
    """Create missing host paths, whose file systems may be away. Raises InvalidRequest, HostPathAway."""
    paths = " ".join(sorted(mount.host_path for mount in mounts if mount.host_path))
    try:
        await SOURCES.run(paths, lambda: make_sources(mounts), SOURCES_S)
    except TimeoutError:
        text = f"host paths do not answer within {SOURCES_S:g} s; is a file server away? {paths[:MAX_SHOWN]}"
        raise HostPathAway(text) from None
    except TooManyHung as error:
        raise HostPathAway(str(error)) from None


class MountPoints:
    """Mount points that containers hold, and which of them were made. Methods block, and may run in any thread."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE
        self._lock = threading.Lock()
        self._held = Counter[str]()
        self._made = self._load()

    def claim(self, container: Container) -> None:
        """Count a container, and record the paths that its shim will make."""
        with self._lock:
            targets = _targets(container)
            self._held.update(targets)
            missing = {path for target in targets for path in _missing(target)} - self._made
            if missing:
                self._made |= missing
                self._save()

    def release(self, container: Container) -> None:
        """Remove what was made for a container that is gone, unless others hold it."""
        with self._lock:
            targets = _targets(container)
            self._held.subtract(targets)
            ended = [target for target in targets if self._held[target] <= 0]
            for target in ended:
                del self._held[target]
            if ended and self._made:
                self._remove([path for path in self._made if any(_within(target, path) for target in ended)])

    def sweep(self) -> None:
        """Remove what no container holds: the runtime was killed while it removed one."""
        with self._lock:
            self._remove(list(self._made))

    def clear(self) -> None:
        """Remove all that was made, once no container runs."""
        with self._lock:
            self._held.clear()
            self._remove(self._made)

    def _remove(self, paths: Iterable[str]) -> None:
        """Remove the deepest first."""
        gone = [path for path in paths if not any(_within(target, path) for target in self._held)]
        used = mount_points() if gone else set()
        gone = [path for path in gone if not any(_within(target, path) for target in used)]
        for path in sorted(gone, key=len, reverse=True):
            with contextlib.suppress(OSError):
                _remove_empty(path)
        if gone:
            self._made -= set(gone)
            self._save()

    def _load(self) -> set[str]:
        try:
            return set(msgspec.json.decode(self._file.read_bytes(), type=list[str]))
        except (OSError, *UNREADABLE):
            return set()

    def _save(self) -> None:
        """Write the record. A failed write leaves an empty directory behind at worst."""
        with contextlib.suppress(OSError):
            write_atomic(self._file, msgspec.json.encode(sorted(self._made)), is_durable=False)


def _targets(container: Container) -> list[str]:
    """Return the real paths of a container's mounts on the host; none if it has a root of its own."""
    if container.hollow is not None or container.image is not None or not namespaces_allowed():
        return []
    return sorted({os.path.realpath(target) for target in mount_targets(container.config)})


def _missing(target: str) -> list[str]:
    """Return the path and its parents as far as they do not exist."""
    missing = []
    while target != "/" and not os.path.lexists(target):
        missing.append(target)
        target = os.path.dirname(target)
    return missing


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")


def mount_points() -> set[str]:
    """Return the mount points of all mount namespaces of the machine that have processes."""
    points, seen = set[str](), set[str]()
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it has ended
            namespace = os.readlink(process / "ns" / "mnt")
            if namespace not in seen:
                points.update(mounted.point for mounted in mounts_of(process))
                seen.add(namespace)
    return points


def _remove_empty(path: str) -> None:
    st = os.lstat(path)
    if stat.S_ISDIR(st.st_mode):
        os.rmdir(path)
    elif stat.S_ISREG(st.st_mode) and st.st_size == 0:
        os.unlink(path)
