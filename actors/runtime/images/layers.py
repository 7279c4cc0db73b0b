"""One layer over a directory: files added and replaced, and taken away where the layer says so. Blocks.

Invariant: nothing outside of the directory is ever touched, whatever names and links the layer holds.
"""

import contextlib
import os
import shutil
import stat
import tarfile
from pathlib import Path

from actors.runtime.errors import ImageUnusable
from actors.runtime.images.archive import Archive
from actors.runtime.shim.mounts import inside

_GONE, _EMPTIED = ".wh.", ".wh..wh..opq"
_BLOCK = 1024 * 1024


def unpack(archive: Archive, layers: tuple[str, ...], root: Path) -> int:
    """The image's files, in a directory made for them; how many bytes. Raises ImageUnusable, OSError."""
    root.mkdir(mode=0o755, parents=True)
    root.chmod(0o755)
    unpacked = Unpacked(root)
    for name in layers:
        with archive.layer(name) as layer:
            unpacked.lay(layer)
    return unpacked.size


class Unpacked:
    """The directory an image's layers are laid into; `size` counts bytes."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._as_root = os.geteuid() == 0
        self.size = 0

    def lay(self, layer: tarfile.TarFile) -> None:
        """Raises ImageUnusable, OSError."""
        modes: list[tuple[str, int]] = []
        for member in layer:
            place = self._place(member.name)
            if place is None:
                continue
            if os.path.basename(place).startswith(_GONE):
                self._take_away(place)
                continue
            self._make(layer, member, place)
            if member.isdir():
                modes.append((place, member.mode))
        for place, mode in reversed(modes):  # last, since a directory may be closed to its owner
            with contextlib.suppress(OSError):
                os.chmod(place, stat.S_IMODE(mode), follow_symlinks=True)

    def _place(self, name: str) -> str | None:
        """Where it goes; None for the root itself. Its parents are made, and links in them followed in the image."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ImageUnusable(f"a layer holds {name!r}, which leads out of the image")
        if not parts:
            return None
        parent = inside(self._root, "/".join(parts[:-1]))
        if not os.path.isdir(parent):
            os.makedirs(parent, 0o755, exist_ok=True)
        return f"{parent}/{parts[-1]}"

    def _take_away(self, place: str) -> None:
        directory, name = os.path.split(place)
        if name == _EMPTIED:
            for entry in os.listdir(directory):
                _remove(f"{directory}/{entry}")
        else:
            _remove(f"{directory}/{name.removeprefix(_GONE)}")

    def _make(self, layer: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> None:
        if not (member.isdir() and os.path.isdir(place) and not os.path.islink(place)):
            _remove(place)
            self._create(layer, member, place)
        if self._as_root and not member.islnk():
            os.chown(place, member.uid, member.gid, follow_symlinks=False)
            if not member.issym() and not member.isdir():
                os.chmod(place, stat.S_IMODE(member.mode))  # a change of owner clears set-user-id

    def _create(self, layer: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> None:
        if member.isdir():
            os.mkdir(place, 0o755)
        elif member.issym():
            os.symlink(member.linkname, place)
        elif member.islnk():
            source = self._place(member.linkname)
            if source is None or os.path.islink(source) or not os.path.isfile(source):
                raise ImageUnusable(f"{member.name!r} is a link to {member.linkname!r}, which is no file of the image")
            os.link(source, place)
        elif member.isfile():
            self._write(layer, member, place)
        elif self._as_root and (member.ischr() or member.isblk() or member.isfifo()):
            kind = stat.S_IFIFO if member.isfifo() else stat.S_IFCHR if member.ischr() else stat.S_IFBLK
            os.mknod(place, kind | stat.S_IMODE(member.mode), os.makedev(member.devmajor, member.devminor))

    def _write(self, layer: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> None:
        source = layer.extractfile(member)
        assert source is not None
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as sink:
            shutil.copyfileobj(source, sink, _BLOCK)
            os.fchmod(descriptor, stat.S_IMODE(member.mode))
        self.size += member.size


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
