"""Replace all files of a directory at once: a reader sees all of the old files or all of the new ones.

The files are in a versioned directory, `..data` is a symlink to it, and each file's first path component is a symlink
into `..data`. Renaming `..data` is the change. Leftovers of a crash are removed by the next write.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from actors.podworker.pods.volumes.payload import File, Payload

DATA, NEXT, PREFIX = "..data", "..data_next", "..v_"
_DIRECTORY = 0o755


def write(directory: Path, payload: Payload, group: int = -1, check: Callable[[], None] | None = None) -> bool:
    """Make the directory contain exactly `payload`. Returns False if it already did. Raises OSError.

    `check` is called before a file is written, and may raise.
    Only root gives files to a user or a group; containers of other users run as that user.
    """
    group = group if os.geteuid() == 0 else -1
    _make(directory)
    version = _current(directory)
    changed = version is None or _read(version) != {path: (f.data, _mode(f, group)) for path, f in payload.items()}
    if version is None or changed:
        if check is not None:
            check()
        version = _fresh(directory, payload, group)
        _swap(directory, version.name)
    _tidy(directory, version.name, {path.partition("/")[0] for path in payload})
    return changed


def _make(directory: Path) -> None:
    """Create a directory that every container user can read, whatever the umask."""
    if not os.path.isdir(directory):
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, _DIRECTORY)


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


def _fresh(directory: Path, payload: Payload, group: int) -> Path:
    version = directory / (PREFIX + secrets.token_hex(6))
    try:
        _make(version)
        for path, file in payload.items():
            for parent in reversed(PurePosixPath(path).parents[:-1]):
                _make(version / parent)
            _write_file(version / path, file, group)
    except OSError:
        shutil.rmtree(version, ignore_errors=True)  # a full disk stays full if each try leaves what it wrote
        raise
    return version


def _write_file(target: Path, file: File, group: int) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(file.data)
        if (file.owner >= 0 or group >= 0) and os.geteuid() == 0:
            os.fchown(descriptor, file.owner, group)
        os.fchmod(descriptor, _mode(file, group))


def _swap(directory: Path, name: str) -> None:
    fresh = directory / NEXT
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(name, fresh)
    os.rename(fresh, directory / DATA)


def _tidy(directory: Path, version: str, names: set[str]) -> None:
    """Create missing symlinks, remove obsolete ones and other versions; after the swap, so none dangles for long."""
    with os.scandir(directory) as entries:
        present = {entry.name: entry for entry in entries}
    for name in names - present.keys():
        os.symlink(f"{DATA}/{name}", directory / name)
    for name, entry in present.items():
        if name.startswith(PREFIX):
            if name != version:
                shutil.rmtree(entry.path, ignore_errors=True)
        elif not name.startswith("..") and name not in names and entry.is_symlink():
            os.unlink(entry.path)
