"""Replace all files of a directory at once: a reader sees all of the old files or all of the new ones.

The files are in a versioned directory, `..data` is a symlink to it, and each file's first path component is a symlink
into `..data`. Renaming `..data` is the change. Leftovers of a crash are removed by the next write.
"""

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from actors.podworker.pods.volumes.payload import File, Payload

DATA, NEXT, PREFIX = "..data", "..data_next", "..v_"
_DIRECTORY = 0o755


def write(directory: Path, payload: Payload, group: int = -1) -> bool:
    """Make the directory contain exactly `payload`. Returns False if it already did. Raises OSError.

    Only root gives files to a user or a group; containers of other users run as that user.
    """
    group = group if os.geteuid() == 0 else -1
    _make(directory)
    current = _current(directory)
    changed = current is None or _read(current) != {path: (f.data, _mode(f, group)) for path, f in payload.items()}
    if changed:
        _swap(directory, _fresh(directory, payload, group))
    _link(directory, {path.partition("/")[0] for path in payload})
    _sweep(directory)
    return changed


def _make(directory: Path) -> None:
    """Create a directory that every container user can read, whatever the umask."""
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(_DIRECTORY)


def _mode(file: File, group: int) -> int:
    return file.mode if group < 0 else file.mode | 0o040


def _current(directory: Path) -> Path | None:
    try:
        name = os.readlink(directory / DATA)
    except OSError:
        return None
    return directory / name if name.startswith(PREFIX) and (directory / name).is_dir() else None


def _read(version: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in version.rglob("*") if path.is_file()]
    return {str(path.relative_to(version)): (path.read_bytes(), path.stat().st_mode & 0o777) for path in files}


def _fresh(directory: Path, payload: Payload, group: int) -> str:
    name = PREFIX + secrets.token_hex(6)
    _make(directory / name)
    for path, file in payload.items():
        target = directory / name / path
        for parent in reversed(target.relative_to(directory).parents[:-1]):
            _make(directory / parent)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(file.data)
            if (file.owner >= 0 or group >= 0) and os.geteuid() == 0:
                os.fchown(descriptor, file.owner, group)
            os.fchmod(descriptor, _mode(file, group))
    return name


def _swap(directory: Path, name: str) -> None:
    fresh = directory / NEXT
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    fresh.symlink_to(name)
    fresh.rename(directory / DATA)


def _link(directory: Path, names: set[str]) -> None:
    """Update the symlinks: obsolete ones are removed and new ones created after the swap, so none dangles for long."""
    present = {entry.name for entry in os.scandir(directory) if not entry.name.startswith("..")}
    for name in names - present:
        (directory / name).symlink_to(f"{DATA}/{name}")
    for name in present - names:
        if (directory / name).is_symlink():
            (directory / name).unlink()


def _sweep(directory: Path) -> None:
    current = _current(directory)
    for entry in list(os.scandir(directory)):
        if entry.name.startswith(PREFIX) and (current is None or entry.name != current.name):
            shutil.rmtree(entry.path, ignore_errors=True)
