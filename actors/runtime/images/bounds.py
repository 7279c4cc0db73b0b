"""How much an image may hold, and the count of what it held so far. Pure."""

import os
import tarfile

import msgspec

from actors.runtime.model.errors import ImageTooLarge

GIB, MIB = 1 << 30, 1 << 20


class Bounds(msgspec.Struct, frozen=True):
    size: int = 32 * GIB
    """Bytes of all files of all layers, and of one unpacked tar file."""
    entries: int = 1_000_000
    """Entries of all layers: files, directories, links, whiteouts."""
    layers: int = 128
    """Docker allows 127."""
    ratio: int = 200
    """Plain bytes for each gzipped one; ordinary layers have 2 to 10, zeros 1,030."""
    ratio_from: int = 256 * MIB
    """Plain bytes up to which any ratio is accepted."""
    name: int = 4096
    """Bytes of an entry's name and of a link's target, as in the kernel."""
    header: int = 4 * MIB
    """Bytes of one entry's headers (pax, GNU long names, sparse maps), which are read into memory."""
    members: int = 10_000
    """Files of an archive, blobs and manifests of other platforms included."""
    metadata: int = 4 * MIB
    """Bytes of a manifest or a configuration."""


class Allowance:
    """What is left of the bounds for one image. All methods raise ImageTooLarge."""

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
        """Check a position in a tar file: `plain` bytes came of `packed` ones."""
        if plain > self.bounds.ratio_from and plain > self.bounds.ratio * packed:
            raise ImageTooLarge(
                f"more than {self.bounds.ratio_from} bytes unpack to over {self.bounds.ratio} times their size; "
                "save the image without compression"
            )
        if plain > 2 * self.bounds.size:  # headers, padding and data of entries that are skipped
            raise ImageTooLarge(f"a tar file of the image is longer than {2 * self.bounds.size} bytes; split it")
