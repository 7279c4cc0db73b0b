"""Replace the functions of `os` and `io` that programs change files with, for paths on simulated disks.

Only what changes durability or may fail is replaced: everything reaches the kernel. Each descriptor belongs to the
process that opened it; `close_all` closes those of a dead one, as the kernel does, and nothing that the dead process's
code still does afterwards has an effect.
"""

import builtins
import io
import os
from collections.abc import Callable
from typing import IO, Any

from tests.simulation.disk.disk import Disk, Owner
from tests.simulation.disk.faults import Killed, full

CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
REPLACED = ("open", "close", "read", "write", "ftruncate", "fsync", "fdatasync", "unlink", "remove", "rmdir", "rename")
NATIVE = {name: getattr(os, name) for name in (*REPLACED, "replace", "mkdir", "symlink", "link", "listdir")}
OPEN = io.open


class OpenFile:
    """An open descriptor on a disk."""

    __slots__ = ("disk", "owner", "path")

    def __init__(self, disk: Disk, owner: Owner | None, path: str) -> None:
        self.disk, self.owner, self.path = disk, owner, path


class Hooks:
    """The replaced functions. `current` returns the process whose code runs."""

    def __init__(self, current: Callable[[], Owner | None]) -> None:
        self.current = current
        self.disks: list[Disk] = []
        self._files: dict[int, OpenFile] = {}

    def install(self) -> None:
        for name in NATIVE:
            setattr(os, name, getattr(self, f"_{name}"))
        io.open = builtins.open = self._io_open  # type: ignore[assignment]

    def uninstall(self) -> None:
        for name, native in NATIVE.items():
            setattr(os, name, native)
        io.open = builtins.open = OPEN

    def close_all(self, owner: Owner) -> None:
        """Close what a dead process has open."""
        for descriptor in [each for each, file in self._files.items() if file.owner is owner]:
            del self._files[descriptor]
            NATIVE["close"](descriptor)

    def disk_of(self, path: Any, dir_fd: int | None = None) -> tuple[Disk | None, str]:
        """Return the disk that holds a path, and the path from the top."""
        if isinstance(path, int):
            found = self._files.get(path)
            return (found.disk, found.path) if found else (None, "")
        text = os.fsdecode(path)
        if dir_fd is not None and not text.startswith("/"):
            text = f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{text}"
        for disk in self.disks:
            if disk.holds(text):
                return disk, text
        return None, text

    def _dead(self) -> bool:
        owner = self.current()
        return owner is not None and not owner.alive

    def check_alive(self) -> None:
        """Raise Killed in a dead process."""
        if self._dead():
            raise Killed(1)

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        disk, text = self.disk_of(path, dir_fd)
        if disk is not None and flags & CHANGING:
            disk.change()
        descriptor: int = NATIVE["open"](path, flags, mode, dir_fd=dir_fd)
        if disk is not None:
            self._files[descriptor] = OpenFile(disk, self.current(), text)
        return descriptor

    def _close(self, descriptor: int) -> None:
        if not self._dead():
            self._files.pop(descriptor, None)
            NATIVE["close"](descriptor)

    def _read(self, descriptor: int, size: int) -> bytes:
        file = self._files.get(descriptor)
        if file is not None:
            file.disk.faults.check("read")
        data: bytes = NATIVE["read"](descriptor, size)
        return data

    def _write(self, descriptor: int, data: Any) -> int:
        file = self._files.get(descriptor)
        if file is None:
            self.check_alive()
            written: int = NATIVE["write"](descriptor, data)
            return written
        return self.write_to(file.disk, descriptor, data)

    def write_to(self, disk: Disk, descriptor: int, data: Any) -> int:
        """Write as much as there is space for. Raises ENOSPC, EIO, Killed."""
        disk.change("write")
        disk.writes += 1
        view = memoryview(data).cast("B")
        granted = len(view)
        if disk.faults.free is not None:
            size = os.fstat(descriptor).st_size
            offset = size if _appends(descriptor) else os.lseek(descriptor, 0, os.SEEK_CUR)
            growth = max(offset + len(view) - size, 0)
            granted -= growth - disk.faults.grant(growth)
            if view and not granted:
                raise full()
        written: int = NATIVE["write"](descriptor, view[:granted])
        return written

    def _ftruncate(self, descriptor: int, length: int) -> None:
        file = self._files.get(descriptor)
        if file is not None:
            file.disk.change()
            file.disk.faults.release(max(os.fstat(descriptor).st_size - length, 0))
        NATIVE["ftruncate"](descriptor, length)

    def _fsync(self, descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        file = self._files.get(number)
        if file is not None:
            file.disk.synced(number)
        elif not self._dead():
            NATIVE["fsync"](number)

    _fdatasync = _fsync

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._removing(path, dir_fd)
        NATIVE["unlink"](path, dir_fd=dir_fd)

    _remove = _unlink

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._removing(path, dir_fd)
        NATIVE["rmdir"](path, dir_fd=dir_fd)

    def _removing(self, path: Any, dir_fd: int | None) -> None:
        disk, text = self.disk_of(path, dir_fd)
        if disk is not None:
            disk.removing(text)

    def _rename(self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        disk, source = self.disk_of(src, src_dir_fd)
        other, target = self.disk_of(dst, dst_dir_fd)
        if disk is not None and disk is other:
            disk.renaming(source, target)
        NATIVE["rename"](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    _replace = _rename

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._changing(path, dir_fd)
        NATIVE["mkdir"](path, mode, dir_fd=dir_fd)

    def _symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        self._changing(dst, dir_fd)
        NATIVE["symlink"](src, dst, dir_fd=dir_fd)

    def _link(self, src: Any, dst: Any, **options: Any) -> None:
        self._changing(dst, options.get("dst_dir_fd"))
        NATIVE["link"](src, dst, **options)

    def _listdir(self, path: Any = ".") -> list[Any]:
        """List in an order that no file system decides."""
        return sorted(NATIVE["listdir"](path))

    def _changing(self, path: Any, dir_fd: int | None) -> None:
        disk, _ = self.disk_of(path, dir_fd)
        if disk is not None:
            disk.change()

    def _io_open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[Any, int], int] | None = None,
    ) -> IO[Any]:
        disk, _ = self.disk_of(file)
        if disk is None:
            return OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = DiskFile(self, disk, file, "".join(each for each in mode if each not in "bt"), closefd, opener or _opener)
        if buffering == 0:
            return raw
        kind: Any = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
        binary = kind(raw, *((buffering,) if buffering > 1 else ()))
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)


class DiskFile(io.FileIO):
    """A file on a simulated disk, below the buffers of `io`."""

    def __init__(self, hooks: Hooks, disk: Disk, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        self._hooks, self._disk = hooks, disk
        super().__init__(file, mode, closefd, None if isinstance(file, int) else opener)
        self._held = self._hooks._files.get(self.fileno())

    def write(self, data: Any) -> int:
        return self._hooks.write_to(self._disk, self.fileno(), data)

    def readinto(self, buffer: Any) -> int | None:
        self._disk.faults.check("read")
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._disk.faults.check("read")
        return super().readall()

    def truncate(self, size: int | None = None) -> int:
        self._disk.change()
        return super().truncate(size)

    def close(self) -> None:
        held = getattr(self, "_held", None)
        if held is None or self.closed:
            super().close()
        elif self._hooks._files.get(self.fileno()) is held:  # else its process is dead, and the descriptor another's
            if self.closefd:
                del self._hooks._files[self.fileno()]
            super().close()


def _opener(path: Any, flags: int) -> int:
    return os.open(path, flags, 0o666)


def _appends(descriptor: int) -> bool:
    with OPEN(f"/proc/self/fdinfo/{descriptor}") as file:
        return any(line.startswith("flags:") and int(line[6:], 8) & os.O_APPEND for line in file)
