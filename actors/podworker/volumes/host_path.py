"""hostPath volumes: the path is what its type says, made where the type allows."""

import os
import stat
from collections.abc import Callable

from actors.podworker.errors import VolumeNotReady
from actors.podworker.types import Object

CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
CREATED = {"DirectoryOrCreate": "Directory", "FileOrCreate": "File"}


def prepare(source: Object) -> None:
    """Raises VolumeNotReady. An empty type means no check at all."""
    kind, path = source.get("type") or "", str(source.get("path") or "")
    if not kind:
        return
    wanted = CREATED.get(kind, kind)
    if wanted not in CHECKS:
        raise VolumeNotReady(f"hostPath type {kind!r} is unknown")
    try:
        if kind in CREATED and not os.path.lexists(path):
            _create(wanted, path)
        fits, noun = CHECKS[wanted]
        if not fits(os.stat(path).st_mode):
            raise VolumeNotReady(f"hostPath type check failed: {path} is not a {noun}")
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise VolumeNotReady(f"hostPath type check failed: {path}: {reason}") from None


def _create(kind: str, path: str) -> None:
    if kind == "Directory":
        os.makedirs(path, 0o755, exist_ok=True)
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
