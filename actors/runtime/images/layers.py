"""Unpack the layers of an image into one directory. Blocks.

Nothing outside of the directory is read, changed or linked to, whatever names and links the layers hold: every entry is
reached by descriptors below the directory (protocols.process.beneath); every call takes a descriptor and one name, and
follows no link.

Of the rules of tarfile's `data` filter (PEP 706) these hold as they are: leading slashes are stripped, names with `..`
and links to other files than the image's own are errors, character and block devices are not made. Others are
adapted, because an image is a root directory and not a user's download: symbolic links may point anywhere, as nobody on
this host follows them; owners, set-user-ID bits and write bits stay, as the directory above lets only root in. Devices
are left out silently: a container's /dev is the host's, and a node of the image's own would open a disk to any user.
"""

import contextlib
import errno
import os
import shutil
import stat
import tarfile
from pathlib import Path

from actors.runtime.images.archive import Archive
from actors.runtime.images.bounded_tar import ImageBudget, TarReader
from actors.runtime.model.errors import ImageUnusable
from protocols.process.beneath import Walk, open_beneath, parent_beneath, proc_path

_WHITEOUT, _RESERVED, _OPAQUE = ".wh.", ".wh..wh.", ".wh..wh..opq"
CAPABILITIES = "SCHILY.xattr.security.capability"
"""Pax header of a program's capabilities, the one extended attribute that is taken: overlayfs obeys some others."""
_BLOCK = 1024 * 1024
_IN_ROOT, _MAKING = Walk(in_root=True), Walk(in_root=True, make=0o755)
_MOST_ID = 2**32 - 2


def unpack(archive: Archive, layers: tuple[str, ...], root: Path) -> int:
    """Create `root`, unpack the layers into it and return the bytes of its files. Raises ImageUnusable, OSError."""
    root.mkdir(mode=0o755, parents=True)
    root.chmod(0o755)
    archive.budget.layers(len(layers))
    unpacker = LayerUnpacker(root, archive.budget)
    try:
        for name in layers:
            with archive.layer(name) as layer:
                unpacker.apply(layer)
    finally:
        unpacker.close()
    return archive.budget.size


class LayerUnpacker:
    """Apply layers, lowest first, to the root directory of an image."""

    def __init__(self, root: Path, budget: ImageBudget) -> None:
        self._budget = budget
        self._as_root = os.geteuid() == 0
        self._parent, self._parent_name = -1, ""
        self._own: set[str] = set()
        """Paths of this layer, with the directories above them."""
        self._emptied: set[str] = set()
        """Directories in which nothing is of lower layers."""
        self._top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        self._close_parent()
        os.close(self._top)

    def apply(self, layer: TarReader) -> None:
        """Apply one layer. Raises ImageUnusable, OSError."""
        modes: list[tuple[str, int]] = []
        self._own, self._emptied = set(), set()
        for member in layer.members():
            self._budget.entry(member)
            name = _checked_name(member.name)
            if not name:
                continue  # the root itself
            parent, last = self._open_parent(name)
            if last.startswith(_WHITEOUT):
                self._apply_whiteout(parent, name)
            else:
                self._claim(name)
                self._make(layer, member, parent, last)
                modes += [(name, member.mode)] if member.isdir() else []
        for name, mode in reversed(modes):  # last, since a directory may be closed to its owner
            self._restrict_directory(name, mode)

    def _restrict_directory(self, name: str, mode: int) -> None:
        """Set a directory's mode, if it still exists and can be reached: later entries may have removed it."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            parent, last = parent_beneath(self._top, name, _IN_ROOT)
            try:
                if _is_directory(parent, last):
                    _set_mode(parent, last, mode)
            finally:
                os.close(parent)

    def _open_parent(self, name: str) -> tuple[int, str]:
        """Return the descriptor of the entry's parent directory, created if missing, and its last component.

        The descriptor is valid until the next call. It is cached, since entries of one directory follow each other.
        """
        head, _, last = name.rpartition("/")
        if self._parent < 0 or head != self._parent_name:
            self._close_parent()
            self._parent, self._parent_name = open_beneath(self._top, head, _MAKING), head
        return self._parent, last

    def _close_parent(self) -> None:
        if self._parent >= 0:
            os.close(self._parent)
        self._parent = -1

    def _claim(self, name: str) -> None:
        while name and name not in self._own:
            self._own.add(name)
            name = name.rpartition("/")[0]

    def _apply_whiteout(self, parent: int, name: str) -> None:
        """Hide entries of lower layers, wherever in its layer the whiteout is.

        The format's reserved names, except for the opaque whiteout, mean nothing here.
        """
        head, _, last = name.rpartition("/")
        if last == _OPAQUE:
            self._empty(head)
        elif not last.startswith(_RESERVED):
            hidden = last.removeprefix(_WHITEOUT)
            if hidden in ("", ".", ".."):
                raise ImageUnusable(f"a layer holds {last!r}, which removes no entry of the image")
            if path := self._hide(parent, head, hidden):
                self._empty(path)

    def _hide(self, parent: int, head: str, last: str) -> str:
        """Remove an entry of a lower layer; return the path of a directory that this layer has, too."""
        path = f"{head}/{last}" if head else last
        if path not in self._own:
            _remove(parent, last)
        return path if path in self._own and _is_directory(parent, last) else ""

    def _empty(self, name: str) -> None:
        """Remove what a directory has of lower layers, at any depth. Each directory is read once per layer."""
        pending = [name]
        while pending:
            head = pending.pop()
            if head in self._emptied:
                continue
            self._emptied.add(head)
            directory = open_beneath(self._top, head, _IN_ROOT)
            try:
                pending += [path for last in _names(directory) if (path := self._hide(directory, head, last))]
            finally:
                os.close(directory)

    def _make(self, layer: TarReader, member: tarfile.TarInfo, parent: int, last: str) -> None:
        if member.islnk():
            self._link(member, parent, last)
        elif self._create(layer, member, parent, last) and self._as_root:
            os.chown(last, _id(member.uid), _id(member.gid), dir_fd=parent, follow_symlinks=False)
            if not member.issym() and not member.isdir():
                _set_mode(parent, last, member.mode)  # a change of owner clears set-user-ID
            if member.isfile() and (capabilities := member.pax_headers.get(CAPABILITIES)):
                _set_capabilities(parent, last, capabilities.encode(errors="surrogateescape"))

    def _create(self, layer: TarReader, member: tarfile.TarInfo, parent: int, last: str) -> bool:
        """Create an entry; return False for devices and other kinds that are skipped."""
        if member.isdir():
            if not _is_directory(parent, last):
                _remove(parent, last)
                os.mkdir(last, 0o755, dir_fd=parent)
        elif member.issym():
            _remove(parent, last)
            os.symlink(member.linkname, last, dir_fd=parent)
        elif member.isfile():
            _remove(parent, last)
            self._write(layer, member, parent, last)
        elif member.isfifo():
            _remove(parent, last)
            os.mkfifo(last, 0o600, dir_fd=parent)
            _set_mode(parent, last, member.mode)
        else:
            return False
        return True

    def _link(self, member: tarfile.TarInfo, parent: int, last: str) -> None:
        fault = ImageUnusable(f"{member.name!r} is a link to {member.linkname!r}, which is no file of the image")
        target = _checked_name(member.linkname)
        if not target:
            raise fault
        directory = -1
        try:
            directory, name = parent_beneath(self._top, target, _IN_ROOT)
            info = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISREG(info.st_mode):
                raise fault
            if not _is_same(parent, last, info):
                _remove(parent, last)
                os.link(name, last, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            raise fault from None
        finally:
            if directory >= 0:
                os.close(directory)

    def _write(self, layer: TarReader, member: tarfile.TarInfo, parent: int, last: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(last, flags, 0o600, dir_fd=parent)
        with os.fdopen(descriptor, "wb") as sink:
            shutil.copyfileobj(layer.data(member), sink, _BLOCK)
            os.fchmod(descriptor, stat.S_IMODE(member.mode))


def _checked_name(name: str) -> str:
    """Return the name as `a/b/c`; empty for the root itself. Raises ImageUnusable."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise ImageUnusable(f"a layer holds {name!r}, which leads out of the image")
    return "/".join(parts)


def _id(number: int) -> int:
    if not 0 <= number <= _MOST_ID:
        raise ImageUnusable(f"a layer holds a file of user or group {number}, which there cannot be")
    return number


def _lstat(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_directory(parent: int, name: str) -> bool:
    info = _lstat(parent, name)
    return info is not None and stat.S_ISDIR(info.st_mode)


def _is_same(parent: int, name: str, other: os.stat_result) -> bool:
    info = _lstat(parent, name)
    return info is not None and os.path.samestat(info, other)


def _set_mode(parent: int, name: str, mode: int) -> None:
    """Set a mode, except of links, which have none, and of entries that a later one removed."""
    try:
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.chmod(proc_path(descriptor), stat.S_IMODE(mode))
    finally:
        os.close(descriptor)


def _set_capabilities(parent: int, name: str, value: bytes) -> None:
    """Give a program its capabilities, on a file system that has them."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.setxattr(descriptor, "security.capability", value)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM):
            raise
    finally:
        os.close(descriptor)


def _names(directory: int) -> list[str]:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _remove(parent: int, name: str) -> None:
    if _is_directory(parent, name):
        shutil.rmtree(name, dir_fd=parent)
    elif _lstat(parent, name) is not None:
        os.unlink(name, dir_fd=parent)
