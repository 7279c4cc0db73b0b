"""SQLite through the simulated disk: a VFS around SQLite's own, in the very library that `sqlite3` uses.

Reads, locks and shared memory stay SQLite's. Writes, truncations, fsync and removals are reported to the disk first, so
a power cut can lose them. `sqlite3` must be linked dynamically, as on Debian.
"""

import contextlib
import ctypes
import errno
import os
import sqlite3
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from typing import Any

from tests.simulation.disk.disk import Disk, Owner
from tests.simulation.disk.faults import Killed
from tests.simulation.disk.hooks import Hooks

OK, IOERR, FULL = 0, 10, 13
IOERR_READ, IOERR_WRITE, IOERR_FSYNC = IOERR | 1 << 8, IOERR | 3 << 8, IOERR | 4 << 8
IOERR_TRUNCATE, IOERR_DELETE = IOERR | 6 << 8, IOERR | 10 << 8
OPEN_JOURNALS = 0x4000 | 0x800 | 0x80000
"""Super-journal, main journal and WAL: SQLite's own VFS syncs their directory with their first fsync."""
FRAME_HEADER = 24
"""Bytes of the header of a WAL's frame; from the fourth on, not zero in the last frame of a transaction."""
NAME = b"simulated"

Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
Sleep = CFUNCTYPE(c_int, c_void_p, c_int)
Randomness = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
Close = CFUNCTYPE(c_int, c_void_p)
Access = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
"""xRead and xWrite."""
Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
Sync = CFUNCTYPE(c_int, c_void_p, c_int)
Size = CFUNCTYPE(c_int, c_void_p, POINTER(c_int64))


class Vfs(ctypes.Structure):
    """`sqlite3_vfs`, version 3."""

    _fields_ = [
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        *((name, c_void_p) for name in ("xOpen", "xDelete", "xAccess", "xFullPathname", "xDlOpen", "xDlError")),
        *((name, c_void_p) for name in ("xDlSym", "xDlClose", "xRandomness", "xSleep", "xCurrentTime")),
        *((name, c_void_p) for name in ("xGetLastError", "xCurrentTimeInt64", "xSetSystemCall", "xGetSystemCall")),
        ("xNextSystemCall", c_void_p),
    ]


class Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = [
        ("iVersion", c_int),
        *((name, c_void_p) for name in ("xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock")),
        *((name, c_void_p) for name in ("xUnlock", "xCheckReservedLock", "xFileControl", "xSectorSize")),
        *((name, c_void_p) for name in ("xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier")),
        *((name, c_void_p) for name in ("xShmUnmap", "xFetch", "xUnfetch")),
    ]


class LogFile:
    """A file that SQLite has open."""

    __slots__ = ("disk", "number", "owner", "path", "size", "unnamed")

    def __init__(self, disk: Disk, owner: Owner | None, path: str, number: int, *, unnamed: bool) -> None:
        self.disk, self.owner, self.path, self.number = disk, owner, path, number
        self.unnamed = unnamed
        """True if its directory is synced with its first fsync."""


class SqliteDisk:
    """The VFS. One for each process of the operating system; `install` makes it the default."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._library = library()
        native_of = self._library.sqlite3_vfs_find
        native_of.restype = POINTER(Vfs)
        self._native = native_of(b"unix")
        self._vfs = Vfs.from_buffer_copy(self._native.contents)
        self._vfs.zName, self._vfs.pNext = NAME, None
        self._files: dict[int, LogFile] = {}
        self._tables: dict[int, Methods] = {}
        self._connections: dict[Connection, Owner] = {}
        vfs = self._native.contents
        self._native_open, self._native_delete = Open(vfs.xOpen), Delete(vfs.xDelete)
        self._callbacks = {
            "xOpen": Open(self._open),
            "xDelete": Delete(self._delete),
            "xSleep": Sleep(self._sleep),
            "xRandomness": Randomness(self._randomness),
        }
        for name, callback in self._callbacks.items():
            setattr(self._vfs, name, ctypes.cast(callback, c_void_p).value)

    def install(self) -> None:
        self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)
        self._library.sqlite3_randomness(0, None)  # draw the generator's seed anew, from `_randomness`
        Connection.disk = self
        self._connect = sqlite3.connect
        sqlite3.connect = self._connecting  # type: ignore[assignment]

    def uninstall(self) -> None:
        sqlite3.connect = self._connect
        Connection.disk = None
        self._library.sqlite3_vfs_register(self._native, 1)
        self._library.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def _connecting(self, *args: Any, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = self._connect(*args, **{"factory": Connection, **options})
        return made

    def close_all(self, owner: Owner) -> None:
        """Close the connections of a dead process: locks go, and nothing is written."""
        for connection in [each for each, its in self._connections.items() if its is owner]:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        for file in [each for each in self._files.values() if each.owner is owner]:  # of unfinished statements
            if file.disk.number(file.path) == file.number:
                file.disk.abandon(file.path)

    # What SQLite calls. An exception here would be printed and taken for success.

    def _open(self, vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:
        path = ctypes.string_at(name).decode() if name else ""
        disk, _ = self._hooks.disk_of(path)
        if disk is None:
            return int(self._native_open(vfs, name, file, flags, out))
        new = not os.path.exists(path)
        try:
            disk.change() if new else self._hooks.check_alive()
        except Killed:
            ctypes.cast(file, POINTER(c_void_p))[0] = None
            return IOERR
        answer = int(self._native_open(vfs, name, file, flags, out))
        if answer == OK:
            number = disk.number(path)
            assert number is not None
            self._files[file] = LogFile(
                disk, self._hooks.current(), path, number, unnamed=new and bool(flags & OPEN_JOURNALS)
            )
            methods = ctypes.cast(file, POINTER(c_void_p))
            methods[0] = ctypes.addressof(self._table(methods[0]))
        return answer

    def _table(self, native: int) -> Methods:
        """Return the table of methods that stands for one of SQLite's own."""
        table = self._tables.get(native)
        if table is None:
            own = Methods.from_address(native)
            table = self._tables[native] = Methods.from_buffer_copy(own)
            hooks = MethodHooks(self._files, own)
            for name, callback in hooks.callbacks.items():
                setattr(table, name, ctypes.cast(callback, c_void_p).value)
            table.hooks = hooks
        return table

    def _delete(self, vfs: int, name: bytes, sync_directory: int) -> int:
        path = name.decode()
        disk, _ = self._hooks.disk_of(path)
        if disk is None:
            return int(self._native_delete(vfs, name, sync_directory))
        try:
            disk.removing(path)
            answer = int(self._native_delete(vfs, name, 0))
            if answer == OK and sync_directory & 1:
                disk.synced_folder(os.path.dirname(path))
        except (OSError, Killed):
            return IOERR_DELETE
        return answer

    def _sleep(self, vfs: int, microseconds: int) -> int:
        """Do not wait: whoever holds the lock that is waited for cannot run meanwhile."""
        return microseconds

    def _randomness(self, vfs: int, size: int, out: int) -> int:
        ctypes.memmove(out, bytes(size), size)
        return size


class MethodHooks:
    """The replaced methods of files of one kind; `own` are SQLite's."""

    def __init__(self, files: dict[int, LogFile], own: Methods) -> None:
        self._files = files
        self._close_own, self._read_own, self._write_own = Close(own.xClose), Access(own.xRead), Access(own.xWrite)
        self._truncate_own, self._size_own = Truncate(own.xTruncate), Size(own.xFileSize)
        self.callbacks = {
            "xClose": Close(self._close),
            "xRead": Access(self._read),
            "xWrite": Access(self._write),
            "xTruncate": Truncate(self._truncate),
            "xSync": Sync(self._sync),
        }

    def _close(self, file: int) -> int:
        self._files.pop(file, None)
        return int(self._close_own(file))

    def _read(self, file: int, out: int, size: int, offset: int) -> int:
        try:
            self._files[file].disk.faults.check("read")
        except OSError:
            return IOERR_READ
        return int(self._read_own(file, out, size, offset))

    def _write(self, file: int, data: int, size: int, offset: int) -> int:
        held = self._files[file]
        disk = held.disk
        try:
            if held.owner is not None and not held.owner.alive:
                return IOERR_WRITE
            disk.change("write")
        except (OSError, Killed):
            return IOERR_WRITE
        disk.writes += 1
        granted = size
        if disk.faults.free is not None:
            growth = max(offset + size - self._size(file), 0)
            granted -= growth - disk.faults.grant(growth)
        if granted:
            content = ctypes.string_at(data, granted)
            if size == FRAME_HEADER and any(content[4:8]):
                disk.faults.began_commit()
            disk.volume.wrote(held.number, offset, content)
            answer = int(self._write_own(file, data, granted, offset))
            if answer != OK:
                return answer
        return OK if granted == size else FULL

    def _size(self, file: int) -> int:
        size = c_int64()
        self._size_own(file, ctypes.byref(size))
        return size.value

    def _truncate(self, file: int, size: int) -> int:
        held = self._files[file]
        try:
            if held.owner is not None and not held.owner.alive:
                return IOERR_TRUNCATE
            held.disk.change()
        except (OSError, Killed):
            return IOERR_TRUNCATE
        held.disk.faults.release(max(self._size(file) - size, 0))
        held.disk.volume.truncated(held.number, size)
        return int(self._truncate_own(file, size))

    def _sync(self, file: int, flags: int) -> int:
        held = self._files[file]
        try:
            if held.owner is not None and not held.owner.alive:
                return IOERR_FSYNC
            held.disk.synced_log(held.number)
            if held.unnamed:
                held.disk.synced_folder(os.path.dirname(held.path))
                held.unnamed = False
        except (OSError, Killed):
            return IOERR_FSYNC
        return OK


class Connection(sqlite3.Connection):
    """A connection that is closed when its process dies."""

    disk: SqliteDisk | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.disk is not None and (owner := self.disk._hooks.current()) is not None:
            self.disk._connections[self] = owner

    def close(self) -> None:
        if self.disk is not None:
            self.disk._connections.pop(self, None)
        super().close()


def library() -> ctypes.CDLL:
    """Return the library that `sqlite3` uses."""
    with open("/proc/self/maps") as maps:
        found = {line.split()[-1] for line in maps if "/libsqlite3.so" in line}
    if len(found) != 1:
        raise OSError(errno.ENOENT, "this Python's sqlite3 does not use a shared libsqlite3: take the system's Python")
    return ctypes.CDLL(found.pop())
