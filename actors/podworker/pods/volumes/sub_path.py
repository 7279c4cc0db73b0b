"""subPath: a part of a volume, resolved once and mounted where no container can change it. Blocks.

A container that writes to the volume may exchange directories and links at any time, also between a check and the
mount. The part is therefore opened below the volume's descriptor, and this very descriptor is bound to a place below
the pod's directory; runtimes are given that place. Links are followed as long as they stay in the volume.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

import msgspec

from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.volumes import bind_mounts as mounts
from actors.podworker.pods.volumes.paths import pod_directory
from protocols.process import linux
from protocols.process.beneath import LeadsOut, Walk, open_beneath, proc_path
from protocols.process.mountinfo import mounts_below

FOLDER = "volume-subpaths"
_NOT_ALLOWED = (errno.EPERM, errno.EACCES)


class SubPath(msgspec.Struct, frozen=True):
    """A part of a volume that is mounted by itself."""

    volume: Path
    """Directory of the whole volume."""
    part: str
    """Path within the volume."""
    place: Path
    """Path to which the part is bound."""
    writable: bool
    """A missing part is created as a directory with the volume's mode."""
    shared: bool = False
    """Mounts below it propagate to the volume (mountPropagation Bidirectional)."""


def place_of(root: Path, uid: str, volume: str, container: str, number: int) -> Path:
    """Return the bind path of the container's volumeMount `number`; upstream's layout."""
    return pod_directory(root, uid) / FOLDER / volume / container / str(number)


def bind(request: SubPath) -> Path:
    """Bind the part and return the path for the runtime. Raises ContainerConfigInvalid.

    Where this process may not mount, it returns the part's own path; containers then run as the user of this process.
    """
    try:
        descriptor = _opened(request)
        try:
            return _bound(request, descriptor)
        finally:
            os.close(descriptor)
    except LeadsOut:
        raise ContainerConfigInvalid(f"subPath {request.part!r} leads out of its volume") from None
    except FileNotFoundError:
        raise ContainerConfigInvalid(f"subPath {request.part!r} does not exist in its volume") from None
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ContainerConfigInvalid(f"subPath {request.part!r} cannot be used: {reason}") from None


def _opened(request: SubPath) -> int:
    top = os.open(request.volume, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(top).st_mode)
        return open_beneath(top, request.part, Walk(make=mode if request.writable else None))
    finally:
        os.close(top)


def _bound(request: SubPath, found: int) -> Path:
    """Bind the part, replacing a mount of an earlier start: it may be another file by now."""
    if os.geteuid() != 0:
        return Path(os.readlink(proc_path(found)))
    request.place.parent.mkdir(parents=True, exist_ok=True)
    place = Path(os.path.realpath(request.place.parent)) / request.place.name
    for former in mounts_below(place.parent):
        if former == str(place):
            linux.detach(former)
    _make_place(place, stat.S_ISDIR(os.fstat(found).st_mode))
    try:
        mounts.bind(found, place, slave=not request.shared)
    except OSError as error:
        if error.errno not in _NOT_ALLOWED:
            raise
        return Path(os.readlink(proc_path(found)))  # root without CAP_SYS_ADMIN: like another user
    return place


def _make_place(place: Path, directory: bool) -> None:
    if place.exists() and place.is_dir() != directory:
        place.rmdir() if place.is_dir() else place.unlink()
    if directory:
        place.mkdir(mode=0o755, exist_ok=True)
    else:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
