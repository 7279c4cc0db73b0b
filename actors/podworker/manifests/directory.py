"""The manifests that lie in a directory now. Reads only what changed."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from actors.podworker.errors import ManifestInvalid
from actors.podworker.manifests.read import LARGEST, static_pod
from actors.podworker.types import Object

Stamp = tuple[int, int, int]
UNREADABLE: Stamp = (0, 0, 0)


class ManifestDirectory:
    """`on_fault(text)`: a file cannot be used; told once per version of the file."""

    def __init__(self, path: Path, node: str, on_fault: Callable[[str], None]) -> None:
        self._path = path
        self._node = node
        self._on_fault = on_fault
        self._files: dict[str, tuple[Stamp, Object | None]] = {}

    def read(self) -> dict[str, Object]:
        """Static pods by uid. A file that has become unusable keeps the pod it last described. Blocking."""
        found: dict[str, tuple[Stamp, Object | None]] = {}
        try:
            names = sorted(name for name in os.listdir(self._path) if not name.startswith("."))
        except FileNotFoundError:
            names = []
        for name in names:
            before = self._files.get(name)
            if (entry := self._entry(name, before)) is not None:
                found[name] = entry
        self._files = found
        return {pod["metadata"]["uid"]: pod for _, pod in found.values() if pod is not None}

    def _entry(self, name: str, before: tuple[Stamp, Object | None] | None) -> tuple[Stamp, Object | None] | None:
        try:
            with open(self._path / name, "rb", opener=_open) as file:
                info = os.fstat(file.fileno())
                stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
                if not stat.S_ISREG(info.st_mode):
                    return None
                if before is not None and before[0] == stamp:
                    return before
                text = file.read(LARGEST + 1)
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            if before is None or before[0] != UNREADABLE:
                self._on_fault(f"manifest {name}: {os.strerror(error.errno or 0).lower()}")
            return UNREADABLE, before[1] if before else None
        return stamp, self._pod(name, text, before[1] if before else None)

    def _pod(self, name: str, text: bytes, last: Object | None) -> Object | None:
        try:
            if len(text) > LARGEST:
                raise ManifestInvalid(f"larger than {LARGEST} bytes")
            return static_pod(str(self._path / name), text, self._node)
        except ManifestInvalid as error:
            self._on_fault(f"manifest {name}: {error}")
            return last


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
