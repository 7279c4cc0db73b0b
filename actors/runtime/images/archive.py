"""Read image archives: tar files with an OCI image layout or the format of `docker save`. Blocks."""

import contextlib
import os
import platform
import posixpath
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from actors.runtime.images.bounded_tar import UNREADABLE, BoundedFile, ImageBudget, TarReader
from actors.runtime.model.containers import ImageConfig
from actors.runtime.model.errors import ImageTooLarge, ImageUnusable
from protocols.kube.jsons import read_json

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_REFERENCE = "org.opencontainers.image.ref.name"
_FULL_REFERENCE = "io.containerd.image.name"
_BLOCK = 1024 * 1024


class Contents(msgspec.Struct, frozen=True):
    """Image in an archive: bytes of its configuration, names, and the members that are its layers, lowest first."""

    config: bytes
    names: tuple[str, ...]
    layers: tuple[str, ...]


class Archive:
    """Open archive, a context manager. Raises ImageUnusable for a file that is no image.

    A gzipped archive is decompressed to the file `spool` first, since its blobs are not read in file order.
    """

    def __init__(self, path: Path, spool: Path, budget: ImageBudget) -> None:
        self._path = path
        self.budget = budget
        self._raw = _open_regular(path)
        try:
            bounded = BoundedFile(self._raw, budget)
            if bounded.gzipped:
                self._raw, packed = open(spool, "w+b"), self._raw  # noqa: SIM115 # closed by __exit__
                with packed:
                    bounded.begin_data()
                    shutil.copyfileobj(bounded, self._raw, _BLOCK)
                self._raw.seek(0)
                bounded = BoundedFile(self._raw, budget)
            self._tar = TarReader(bounded)
            self._members = self._index()
        except BaseException as error:
            self._raw.close()
            if isinstance(error, UNREADABLE):
                raise ImageUnusable(f"{path} is no tar archive that can be read: {error}") from None
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def _index(self) -> dict[str, tarfile.TarInfo]:
        members: dict[str, tarfile.TarInfo] = {}
        most = self.budget.bounds.members
        for number, member in enumerate(self._tar.members()):
            if number >= most:
                raise ImageTooLarge(f"{self._path} holds more than {most} files; save one image, not many")
            members[member.name.removeprefix("./")] = member
        return members

    def contents(self) -> Contents:
        try:
            return self._contents()
        except UNREADABLE as error:
            raise ImageUnusable(f"{self._path}: its manifest cannot be read: {error}") from None

    def _contents(self) -> Contents:
        if "index.json" in self._members:
            return self._layout()
        if "manifest.json" in self._members:
            return self._docker()
        raise ImageUnusable(f"{self._path} holds neither index.json (OCI layout) nor manifest.json (docker save)")

    @contextlib.contextmanager
    def layer(self, name: str) -> Iterator[TarReader]:
        with self._file(name) as file:
            try:
                bounded = BoundedFile(file, self.budget)
                if bounded.zstd:
                    raise ImageUnusable(f"{self._path}: layers packed with zstd cannot be read; save it with gzip")
                yield TarReader(bounded)
            except UNREADABLE as error:
                raise ImageUnusable(f"{self._path}: layer {name} cannot be read: {error}") from None

    def _layout(self) -> Contents:
        index = self._json("index.json")
        entry = self._chosen(index)
        manifest = self._json(_blob(entry))
        if "manifests" in manifest:  # an index of one image for several platforms
            manifest = self._json(_blob(self._chosen(manifest)))
        notes = entry.get("annotations") or {}
        names = [notes.get(_FULL_REFERENCE) or notes.get(_REFERENCE) or ""]
        layers = tuple(_blob(layer) for layer in manifest.get("layers") or ())
        return Contents(self._read(_blob(manifest.get("config") or {})), _strings(filter(None, names)), layers)

    def _chosen(self, index: dict[str, Any]) -> dict[str, Any]:
        """Return the entry for this machine's platform, or one without a platform."""
        wanted = _ARCHITECTURES.get(platform.machine(), platform.machine())
        entries = [entry for entry in index.get("manifests") or () if isinstance(entry, dict)]
        for entry in entries:
            there = entry.get("platform") or {}
            if not there or (there.get("os", "linux"), there.get("architecture", wanted)) == ("linux", wanted):
                return entry
        raise ImageUnusable(f"{self._path} holds no image for linux/{wanted}")

    def _docker(self) -> Contents:
        manifest = self._json("manifest.json")
        entry = manifest[0] if isinstance(manifest, list) and manifest and isinstance(manifest[0], dict) else {}
        names, layers = _strings(entry.get("RepoTags")), _strings(entry.get("Layers"))
        return Contents(self._read(str(entry.get("Config") or "")), names, layers)

    def _json(self, name: str) -> Any:
        try:
            return read_json(self._read(name))
        except ValueError:
            raise ImageUnusable(f"{self._path}: {name} is no JSON") from None

    def _read(self, name: str) -> bytes:
        with self._file(name) as file:
            return file.read(self.budget.bounds.metadata)

    def _file(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        if member is not None and member.issym():  # `docker save` links a layer that it has written before
            member = self._members.get(posixpath.normpath(f"{posixpath.dirname(name)}/{member.linkname}"))
        if member is None or not member.isfile():
            raise ImageUnusable(f"{self._path}: {name or 'its configuration'} is missing")
        return self._tar.data(member)


def _open_regular(path: Path) -> IO[bytes]:
    """Open a regular file; a pipe or a device could be read without end. Raises ImageUnusable, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ImageUnusable(f"{path} is no file; give an archive or a directory")
    return os.fdopen(descriptor, "rb")


def _blob(descriptor: dict[str, Any]) -> str:
    algorithm, _, digest = str(descriptor.get("digest") or "").partition(":")
    return f"blobs/{algorithm}/{digest}"


def read_config(data: bytes) -> ImageConfig:
    """Decode the supported part of an image configuration. Raises ImageUnusable."""
    try:
        config = (read_json(data) or {}).get("config") or {}
        return ImageConfig(
            entrypoint=_strings(config.get("Entrypoint")),
            command=_strings(config.get("Cmd")),
            env=_strings(config.get("Env")),
            working_dir=str(config.get("WorkingDir") or ""),
            user=str(config.get("User") or ""),
            stop_signal=str(config.get("StopSignal") or ""),
        )
    except UNREADABLE:
        raise ImageUnusable("the image's configuration is no JSON object") from None


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(str(word) for word in value or ())
