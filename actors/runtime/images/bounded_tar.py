"""Read tar files within bounds, whatever they claim to hold. Blocks.

tarfile trusts its input: it reads headers of any length into memory, keeps every entry it saw, and follows negative
sizes backwards forever. Here each header has a budget, entries are dropped, and compressed files are only read
forwards.
"""

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, cast

import msgspec

from actors.runtime.model.errors import ImageTooLarge

GIB, MIB = 1 << 30, 1 << 20


class Bounds(msgspec.Struct, frozen=True):
    """Limits of one import; the first that is passed ends it with ImageTooLarge."""

    size: int = 32 * GIB
    """Bytes of all files of all layers, and of one unpacked tar file."""
    entries: int = 1_000_000
    """Entries of all layers: files, directories, links, whiteouts."""
    layers: int = 128
    """Docker allows 127."""
    ratio: int = 200
    """Decompressed bytes per compressed one; ordinary layers have 2 to 10, zeros 1,030."""
    ratio_from: int = 256 * MIB
    """Decompressed bytes up to which any ratio is accepted."""
    name: int = 4096
    """Bytes of an entry's name and of a link's target, as in the kernel."""
    header: int = 4 * MIB
    """Bytes of one entry's headers (pax, GNU long names, sparse maps), which are read into memory."""
    members: int = 10_000
    """Files of an archive, blobs and manifests of other platforms included."""
    metadata: int = 4 * MIB
    """Bytes of a manifest or a configuration."""


class ImageBudget:
    """Use of the bounds by one image. All methods raise ImageTooLarge."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.size = 0
        """Bytes of files so far."""
        self._entries = 0

    def layers(self, count: int) -> None:
        if count > self.bounds.layers:
            raise ImageTooLarge(f"the image has {count} layers, more than {self.bounds.layers}; squash it")

    def entry(self, member: tarfile.TarInfo) -> None:
        self._entries += 1
        self.size += max(0, member.size)
        if self._entries > self.bounds.entries:
            raise ImageTooLarge(f"the image has more than {self.bounds.entries} entries; split it")
        if self.size > self.bounds.size:
            raise ImageTooLarge(f"the image's files have more than {self.bounds.size} bytes; split it")
        for text in (member.name, member.linkname):
            if len(os.fsencode(text)) > self.bounds.name:
                raise ImageTooLarge(f"an entry's name is longer than {self.bounds.name} bytes; shorten it")

    def unpacked(self, plain: int, packed: int) -> None:
        """Check a position in a tar file, where `packed` bytes decompressed to `plain` ones."""
        if plain > self.bounds.ratio_from and plain > self.bounds.ratio * packed:
            raise ImageTooLarge(
                f"more than {self.bounds.ratio_from} bytes unpack to over {self.bounds.ratio} times their size; "
                "save the image without compression"
            )
        if plain > 2 * self.bounds.size:  # headers, padding and data of entries that are skipped
            raise ImageTooLarge(f"a tar file of the image is longer than {2 * self.bounds.size} bytes; split it")


GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
UNREADABLE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
)
"""Errors of tarfile, gzip and json for input that is no tar, gzip or JSON of the expected shape."""
_CHUNK = 1 << 20
_MOST_GLOBALS = 64 * 1024
"""Bytes of global pax headers; tarfile copies them into every entry."""


class BoundedFile:
    """File object for tarfile: plain files may be read anywhere, gzipped ones only forwards."""

    def __init__(self, file: IO[bytes], budget: ImageBudget) -> None:
        start = file.read(len(ZSTD))
        file.seek(0)
        self.zstd = start == ZSTD
        self._gzipped = start.startswith(GZIP)
        self._packed = file
        self._plain = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if self._gzipped else file
        self._budget = budget
        self._position = 0
        self._header_left: int | None = None
        """Bytes that may still be read for one header; None while data is read."""
        self.begin_header()

    @property
    def gzipped(self) -> bool:
        return self._gzipped

    def begin_header(self) -> None:
        self._header_left = self._budget.bounds.header

    def begin_data(self) -> None:
        self._header_left = None

    def read(self, size: int = -1) -> bytes:
        if self._header_left is not None:
            if not 0 <= size <= self._header_left:
                raise ImageTooLarge(f"an entry's header is longer than {self._budget.bounds.header} bytes")
            self._header_left -= size
        data = self._plain.read(size)
        self._moved(self._position + len(data))
        return data

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        if position < 0 or whence or (self._gzipped and position < self._position):
            raise tarfile.ReadError("the tar file leads backwards")
        if not self._gzipped:
            self._plain.seek(position)
            self._moved(position)
        while self._position < position:
            data = self._plain.read(min(_CHUNK, position - self._position))
            if not data:
                raise tarfile.ReadError("unexpected end of data")
            self._moved(self._position + len(data))
        return self._position

    def _moved(self, position: int) -> None:
        self._position = position
        if self._gzipped:
            self._budget.unpacked(position, self._packed.tell())


class TarReader:
    """Entries of one tar file. Raises ImageTooLarge and the errors in UNREADABLE."""

    def __init__(self, file: BoundedFile) -> None:
        self._file = file
        self._tar = tarfile.TarFile(fileobj=cast(IO[bytes], file), errorlevel=1)

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Iterate the entries. In a compressed file, read an entry's data before the next entry."""
        while (member := self._next()) is not None:
            yield member

    def data(self, member: tarfile.TarInfo) -> IO[bytes]:
        file = self._tar.extractfile(member)
        if file is None:
            raise tarfile.ReadError(f"{member.name!r} is no file")
        return file

    def _next(self) -> tarfile.TarInfo | None:
        self._file.begin_header()
        member = self._tar.next()
        self._file.begin_data()
        self._tar.members.clear()  # type: ignore[attr-defined]  # missing in typeshed; a million entries are a gigabyte
        if member is not None and member.size < 0:
            raise tarfile.ReadError("an entry has a negative size")
        shared = self._tar.pax_headers
        if shared and sum(len(key) + len(value) for key, value in shared.items()) > _MOST_GLOBALS:
            raise ImageTooLarge(f"the headers of a whole tar file are longer than {_MOST_GLOBALS} bytes")
        return member
