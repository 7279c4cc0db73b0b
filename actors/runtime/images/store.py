"""Imported images: one directory each, read at start. The runtime is their only writer.

An interrupted import leaves a directory without image.json, which the next start removes.
"""

import contextlib
import hashlib
import logging
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.runtime.model.containers import Image, ImageConfig
from actors.runtime.model.errors import ImageInUse, ImageUnusable, InvalidRequest, NotFound
from protocols.process.files import UNREADABLE, write_atomic
from protocols.wire import cri_pb2 as pb

HUB, LIBRARY, LATEST = "docker.io", "library", "latest"
HUBS = (HUB, "index.docker.io")
_NAME = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_HOST = re.compile(r"[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*(?::[0-9]{1,5})?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def full_name(text: str) -> str:
    """Return the full name: `busybox` is docker.io/library/busybox:latest. Drops a digest. Raises InvalidRequest."""
    name, _, tag = _split(text.partition("@")[0])
    host, _, rest = name.partition("/")
    if not rest or not ("." in host or ":" in host or host == "localhost"):
        host, rest = HUB, name
    if host in HUBS:
        host, rest = HUB, rest if "/" in rest else f"{LIBRARY}/{rest}"
    if not _HOST.fullmatch(host) or not _NAME.fullmatch(rest) or not _TAG.fullmatch(tag):
        raise InvalidRequest(f'"{text}" is no image name; write it like busybox, team/app:v1 or localhost/app')
    return f"{host}/{rest}:{tag}"


def short_name(name: str) -> str:
    """Return the name as users write it."""
    return name.removeprefix(f"{HUB}/{LIBRARY}/").removeprefix(f"{HUB}/")


def _split(text: str) -> tuple[str, str, str]:
    head, slash, last = text.rpartition("/")
    name, colon, tag = last.partition(":")
    return head + slash + name, colon, tag or LATEST


if TYPE_CHECKING:
    from actors.runtime.images.bounded_tar import Bounds

HOLLOW_PREFIX = "hollow/"
PAUSE = ("pause", "pause-amd64", "pause-arm64")

_FILE, _SPOOL = "image.json", "archive.tar"
_MODE = 0o700
"""Only root may reach the files of images, since they hold set-user-ID programs."""
_PREFIX = "sha256:"
_LOG = logging.getLogger("runtime")


class ImageStore:
    """Imported images by id.

    With `imported_only`, other names do not exist; otherwise they stand for the host's own files.
    """

    def __init__(self, directory: Path, imported_only: bool = False, bounds: "Bounds | None" = None) -> None:
        self._directory = directory
        self._bounds = bounds
        self.imported_only = imported_only
        self._images: dict[str, Image] = {}
        """Replaced, never changed: threads write while the event loop reads."""

    def load(self) -> None:
        """Read all images from disk. Blocks, as import_ and remove do."""
        self._directory.mkdir(mode=_MODE, parents=True, exist_ok=True)
        self._directory.chmod(_MODE)
        images = dict[str, Image]()
        for path in self._directory.iterdir():
            try:
                image = msgspec.json.decode((path / _FILE).read_bytes(), type=Image)
            except FileNotFoundError:
                shutil.rmtree(path, ignore_errors=True)
            except (OSError, *UNREADABLE) as error:
                _LOG.error("image skipped path=%s error=%s", path, error)
            else:
                images[image.id] = image
        self._images = images

    def all(self) -> list[Image]:
        return sorted(self._images.values(), key=lambda image: image.names)

    def find(self, reference: str) -> Image | None:
        """Find an image by id, by a prefix of at least six digits, or by short or full name."""
        name, _, digest = reference.partition("@")
        if exact := self._images.get(digest or name):
            return exact
        digits = name.removeprefix(_PREFIX)
        begun = [image for id, image in self._images.items() if digits and id.startswith(_PREFIX + digits)]
        if len(begun) == 1 and len(digits) >= 6:
            return begun[0]
        try:
            full = full_name(name)
        except InvalidRequest:
            return None
        return next((image for image in self._images.values() if full in image.names), None)

    def of(self, spec: pb.ImageSpec) -> Image | None:
        """Return the image of a container; None for the host's own files. Raises NotFound with imported_only."""
        image = self.find(spec.image) or self.find(spec.user_specified_image)
        name = spec.user_specified_image or spec.image
        if image is None and not self.exists(name):
            raise NotFound(f'image "{name}" was not imported')
        return image

    def exists(self, name: str) -> bool:
        """Return True if containers may use the name."""
        return not self.imported_only or self.find(name) is not None or is_virtual(name)

    def import_(self, path: Path, *names: str) -> Image:
        """Import an archive, or a directory that is used in place. Raises ImageUnusable, InvalidRequest.

        Without names, an archive gives them.
        """
        given = tuple(sorted({full_name(name) for name in names if name}))
        try:
            image = self._reference_directory(path, given) if path.is_dir() else self._unpack(path, given)
        except OSError as error:
            raise ImageUnusable(f"cannot import {path}: {(error.strerror or str(error)).lower()}") from None
        self._save_with_names(image)
        return image

    def alias(self, reference: str, *names: str) -> Image:
        """Give an image more names, which other images lose. Raises NotFound, InvalidRequest."""
        image = self.find(reference)
        if image is None:
            raise NotFound(f'image "{reference}" was not imported; `nodeplane image ls` shows those that were')
        added = {full_name(name) for name in names}
        image = msgspec.structs.replace(image, names=tuple(sorted({*image.names, *added})))
        self._save_with_names(image)
        return image

    def remove(self, reference: str, used: set[str]) -> None:
        """Remove a name; with the last one, or by id, remove the files.

        Raises NotFound, and ImageInUse when a container uses the image.
        """
        image = self.find(reference)
        if image is None:
            raise NotFound(f'image "{reference}" not found')
        removed = full_name(reference)
        names = tuple(name for name in image.names if name != removed) if removed in image.names else ()
        if names:
            self._save_with_names(msgspec.structs.replace(image, names=names))
            return
        if image.id in used:
            raise ImageInUse(f'image "{reference}" is used by a container; remove its pods first')
        self._images = {id: other for id, other in self._images.items() if id != image.id}
        self._delete(image.id)

    def _unpack(self, path: Path, names: tuple[str, ...]) -> Image:
        from actors.runtime.images.archive import Archive, read_config  # loads tar and gzip: most runtimes never do
        from actors.runtime.images.bounded_tar import Bounds, ImageBudget  # as above
        from actors.runtime.images.layers import unpack  # as above

        fresh = self._directory / f".new-{secrets.token_hex(8)}"
        fresh.mkdir(mode=_MODE)
        try:
            with Archive(path, fresh / _SPOOL, ImageBudget(self._bounds or Bounds())) as archive:
                contents = archive.contents()
                names = names or tuple(full_name(name) for name in contents.names)
                if not names:
                    raise ImageUnusable(f"{path} does not say its name; give one with --name")
                id, config = _PREFIX + hashlib.sha256(contents.config).hexdigest(), read_config(contents.config)
                if (there := self._images.get(id)) is not None:
                    return msgspec.structs.replace(there, names=tuple(sorted({*there.names, *names})))
                size = unpack(archive, contents.layers, fresh / "root")
            (fresh / _SPOOL).unlink(missing_ok=True)
            image = Image(id, names, str(self._directory_of(id) / "root"), size, config)
            write_atomic(fresh / _FILE, msgspec.json.encode(image))
            self._delete(id)  # what `load` skipped, since its image.json is damaged
            fresh.rename(self._directory_of(id))
            return image
        finally:
            _discard(fresh)

    def _reference_directory(self, path: Path, names: tuple[str, ...]) -> Image:
        if not names:
            raise InvalidRequest(f"{path} is a directory: give the image a name with --name")
        real = os.path.realpath(path)
        id = _PREFIX + hashlib.sha256(os.fsencode(real)).hexdigest()
        names = tuple(sorted({*names, *(there.names if (there := self._images.get(id)) else ())}))
        return Image(id, names, real, _size(real), ImageConfig())

    def _save_with_names(self, image: Image) -> None:
        """Save the image and take its names from other images."""
        for other in self.all():
            kept = tuple(name for name in other.names if name not in image.names)
            if other.id != image.id and kept != other.names:
                self._write(msgspec.structs.replace(other, names=kept))
        self._write(image)

    def _write(self, image: Image) -> None:
        place = self._directory_of(image.id)
        place.mkdir(mode=_MODE, exist_ok=True)
        write_atomic(place / _FILE, msgspec.json.encode(image))
        self._images = self._images | {image.id: image}

    def _delete(self, id: str) -> None:
        place = self._directory_of(id)
        (place / _FILE).unlink(missing_ok=True)
        _discard(place)

    def _directory_of(self, id: str) -> Path:
        return self._directory / id.removeprefix(_PREFIX)


def is_virtual(name: str) -> bool:
    """Return True for names that stand for no files: the pause image, and simulated containers."""
    last = name.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name.startswith(HOLLOW_PREFIX) or last in PAUSE


def _discard(place: Path) -> None:
    """Remove a directory tree, also with directories whose owner lacks permissions."""
    shutil.rmtree(place, ignore_errors=True)
    if os.geteuid() != 0 and place.exists():
        for directory, folders, _ in os.walk(place):
            for folder in folders:
                with contextlib.suppress(OSError):
                    if not os.path.islink(f"{directory}/{folder}"):
                        os.chmod(f"{directory}/{folder}", 0o700)
        shutil.rmtree(place, ignore_errors=True)


def _size(root: str) -> int:
    total = 0
    for directory, _, files in os.walk(root):
        for file in files:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{directory}/{file}").st_size
    return total
