"""Image archives: an OCI image layout in a tar file, or what `docker save` writes. Read only; blocks."""

import contextlib
import gzip
import json
import platform
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from actors.runtime.errors import ImageUnusable
from actors.runtime.images.types import ImageConfig

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_REFERENCE = "org.opencontainers.image.ref.name"
_FULL_REFERENCE = "io.containerd.image.name"
_MOST_METADATA = 4 * 1024 * 1024
_GZIP = b"\x1f\x8b"


class Contents(msgspec.Struct, frozen=True):
    """What an archive holds: the configuration's bytes, names, and the members that are its layers, lowest first."""

    config: bytes
    names: tuple[str, ...]
    layers: tuple[str, ...]


class Archive:
    """`with Archive(path) as archive:` Raises ImageUnusable for what is no image."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tar = tarfile.open(path)  # noqa: SIM115 # closed by __exit__
            self._members = {member.name.removeprefix("./"): member for member in self._tar.getmembers()}
        except (OSError, tarfile.TarError, EOFError) as error:
            raise ImageUnusable(f"{path} is no tar archive that can be read: {error}") from None

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def contents(self) -> Contents:
        if "index.json" in self._members:
            return self._layout()
        if "manifest.json" in self._members:
            return self._docker()
        raise ImageUnusable(f"{self._path} holds neither index.json (OCI layout) nor manifest.json (docker save)")

    @contextlib.contextmanager
    def layer(self, name: str) -> Iterator[tarfile.TarFile]:
        with self._file(name) as file:
            start = file.read(4)
            file.seek(0)
            if start == b"\x28\xb5\x2f\xfd":
                raise ImageUnusable(f"{self._path}: layers packed with zstd cannot be read; save it with gzip")
            plain = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if start.startswith(_GZIP) else file
            try:
                with tarfile.open(fileobj=plain, mode="r|") as tar:
                    yield tar
            except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
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
        return Contents(self._read(_blob(manifest.get("config") or {})), tuple(filter(None, names)), layers)

    def _chosen(self, index: dict[str, Any]) -> dict[str, Any]:
        """The entry for this machine; one that names no platform will do."""
        wanted = _ARCHITECTURES.get(platform.machine(), platform.machine())
        entries = [entry for entry in index.get("manifests") or () if isinstance(entry, dict)]
        for entry in entries:
            there = entry.get("platform") or {}
            if not there or (there.get("os", "linux"), there.get("architecture", wanted)) == ("linux", wanted):
                return entry
        raise ImageUnusable(f"{self._path} holds no image for linux/{wanted}")

    def _docker(self) -> Contents:
        found = self._json("manifest.json")
        entry = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
        names, layers = tuple(entry.get("RepoTags") or ()), tuple(entry.get("Layers") or ())
        return Contents(self._read(str(entry.get("Config") or "")), names, layers)

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self._read(name))
        except ValueError:
            raise ImageUnusable(f"{self._path}: {name} is no JSON") from None

    def _read(self, name: str) -> bytes:
        with self._file(name) as file:
            return file.read(_MOST_METADATA)

    def _file(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        file = self._tar.extractfile(member) if member is not None else None
        if file is None:
            raise ImageUnusable(f"{self._path}: {name or 'its configuration'} is missing")
        return file


def _blob(descriptor: dict[str, Any]) -> str:
    algorithm, _, digest = str(descriptor.get("digest") or "").partition(":")
    return f"blobs/{algorithm}/{digest}"


def read_config(data: bytes) -> ImageConfig:
    """The honoured part of an image configuration. Raises ImageUnusable."""
    try:
        found = (json.loads(data) or {}).get("config") or {}
        return ImageConfig(
            entrypoint=_words(found.get("Entrypoint")),
            command=_words(found.get("Cmd")),
            env=_words(found.get("Env")),
            working_dir=str(found.get("WorkingDir") or ""),
            user=str(found.get("User") or ""),
            stop_signal=str(found.get("StopSignal") or ""),
        )
    except (ValueError, AttributeError, TypeError):
        raise ImageUnusable("the image's configuration is no JSON object") from None


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(word) for word in value or ())
