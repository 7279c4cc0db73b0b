"""Files that matter: written whole or not at all, and on disk before the call returns."""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from protocols.errors import NodeplaneError
from protocols.process.proc import stat_fields

SWEPT_LIMIT = 1000
LARGEST = 64 << 20
"""Bytes of a file that is read whole: a checkpoint of 10,000 devices has 2 MiB."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of msgspec for JSON that is not what a reader expects: its texts may be no UTF-8, its fields nest deeply."""
STDIN = "-"
"""Name of standard input where a user names a file."""
_swept: set[Path] = set()
"""Directories that this process has swept; a forked one sweeps again."""
os.register_at_fork(after_in_child=_swept.clear)


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, is_durable: bool = True) -> None:
    """Replace `path` by `data`: temporary file, fsync, rename, fsync of the directory. Raises OSError (ENOSPC ...).

    On any error the old file is untouched and the temporary one is removed; what a killed process left of its own is
    removed by the next one that writes in the directory. What each start writes anew needs not be durable: no fsync.
    """
    write_all([WholeFile(path, data, mode)], is_durable=is_durable)


class WholeFile(NamedTuple):
    """A file to write, and its content."""

    path: Path
    data: bytes
    mode: int = 0o600


def write_all(files: Sequence[WholeFile], *, is_durable: bool = True) -> None:
    """Replace several files, each as `write_atomic` does; together they wait for the disk little longer than one.

    Unless `is_durable`, they do not wait for it at all.
    Raises OSError; if that is before the first rename, all old files are untouched.
    """
    drafts: list[Path] = []
    try:
        for file in files:
            sweep_once(file.path.parent)
            drafts.append(file.path.with_name(f".{file.path.name}.{os.getpid()}.tmp"))
            _write_draft(drafts[-1], file)
        for draft in drafts if is_durable else ():
            sync_file(draft)
        for draft, file in zip(drafts, files, strict=True):
            with _naming(file.path):
                os.rename(draft, file.path)
    except BaseException:
        for draft in drafts:
            draft.unlink(missing_ok=True)
        raise
    for directory in dict.fromkeys(file.path.parent for file in files) if is_durable else ():
        sync_directory(directory)


def _write_draft(draft: Path, file: WholeFile) -> None:
    with _naming(file.path):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, file.mode)
        with os.fdopen(descriptor, "wb") as written:
            written.write(file.data)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors of the block name this path: its user knows nothing of drafts."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def open_regular(path: Path | str) -> BinaryIO:
    """Open a file for reading in a directory that others may write to. Raises OSError.

    A symbolic link in the last place is ELOOP, a pipe or device EINVAL: the one leads elsewhere, the other never ends.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_bounded(path: Path) -> bytes:
    """Return the content of a file that another program may have written. Raises OSError; EFBIG over LARGEST bytes."""
    with path.open("rb") as file:
        return _bounded(file, path)


class NotAFile(OSError):
    """Raised for what stands in the place of a state file and is none: a directory, pipe or link, or too large."""


def read_state(path: Path) -> bytes:
    """Return the content of a file that a process of a plane writes, and replaces. Raises NotAFile, OSError."""
    try:
        with open_regular(path) as file:
            return _bounded(file, path)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ELOOP, errno.EFBIG, errno.ENXIO):
            raise NotAFile(error.errno, error.strerror, str(path)) from None
        raise


def read_input(name: Path | str) -> bytes:
    """Return the content of a file that a user names, or of standard input for `-`. Raises OSError, as above."""
    if str(name) != STDIN:
        return read_bounded(Path(name))
    with open(0, "rb", closefd=False) as file:  # by its number: a socket cannot be opened as /dev/stdin
        return _bounded(file, name)


def write_output(path: Path, text: str) -> None:
    """Replace a file that a user names, with mode 0600. Raises OSError.

    What is there and is no file, such as /dev/null or a pipe, is written to: a rename would replace it.
    """
    if is_special(path):
        path.write_text(text, "utf-8")
    else:
        write_atomic(path, text.encode())


def is_special(path: Path) -> bool:
    """Return True for a device, a pipe, or another place that is written to and not replaced."""
    return path.exists() and not path.is_file()


def _bounded(file: BinaryIO, name: Path | str) -> bytes:
    raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(name))
    return raw


def sweep_once(directory: Path) -> None:
    """Remove temporary files of dead processes, once per directory and process."""
    if directory in _swept:
        return
    if len(_swept) >= SWEPT_LIMIT:
        _swept.clear()
    _swept.add(directory)
    for path in directory.glob(".*.tmp"):
        words = path.name.rsplit(".", 2)
        if len(words) == 3 and words[1].isdecimal() and not is_running(int(words[1])):
            with suppress(OSError):  # it does not keep anybody from writing
                path.unlink()


def is_running(pid: int) -> bool:
    """Return False also for a zombie, which only its parent can remove, and some parents never do."""
    return stat_fields(pid)[:1] not in ([], [b"Z"])


def set_aside(path: Path) -> Path:
    """Keep a file that cannot be used under another name, which is returned. Raises OSError."""
    aside = path.with_name(f"{path.name}.corrupt")
    os.replace(path, aside)
    sync_directory(path.parent)
    return aside


def make_directory(path: Path, mode: int) -> None:
    """Make a directory with exactly this mode, whatever the umask is, and its parents; an existing one stays as it is.

    It is on disk when this returns, also if it was made by a process that was killed before it could sync it: what is
    synced in a directory that a power cut removes is lost with it.
    """
    missing = list(takewhile(lambda each: not each.is_dir(), (path, *path.parents)))
    with suppress(PermissionError):  # who may not read the parent did not make it
        sync_directory((missing[-1].parent if missing else path).parent)
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_directory(each.parent)
    if missing:
        path.chmod(mode)


def sync_directory(directory: Path) -> None:
    """Make creations, renames and removals in `directory` durable."""
    sync_file(directory, os.O_DIRECTORY)


def sync_file(path: Path, flags: int = 0) -> None:
    """Make the content of a file durable; it may have been written by others."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SealBroken(NodeplaneError):
    """Raised for a file that is not as it was written; the text says in which way."""


class _Envelope(msgspec.Struct, frozen=True):
    checksum: str
    """sha256 of `data` as it stands in the file."""
    data: msgspec.Raw


def is_locked(path: Path) -> bool:
    """Return True if a process holds the flock of this file. Does not create the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def encodable(text: str) -> str:
    """Return the text with escapes for bytes that are not UTF-8: paths may have some."""
    return text.encode(errors="backslashreplace").decode()


def seal(data: bytes) -> bytes:
    """Return JSON with a checksum beside it, for `unseal`."""
    return msgspec.json.encode(_Envelope(checksum=digest(data), data=msgspec.Raw(data))) + b"\n"


def unseal(raw: bytes) -> bytes:
    """Return the data of a sealed file; raises SealBroken."""
    try:
        envelope = msgspec.json.decode(raw, type=_Envelope)
    except UNREADABLE as error:
        raise SealBroken(str(error)) from None
    if digest(bytes(envelope.data)) != envelope.checksum:
        raise SealBroken("its checksum does not match")
    return bytes(envelope.data)


def digest(raw: bytes) -> str:
    """Return the SHA-256 in hex."""
    return hashlib.sha256(raw).hexdigest()
