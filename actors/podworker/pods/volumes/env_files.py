"""Read the env files that a container refers to, which other containers may be changing. Blocks."""

import os
import stat
from pathlib import Path

from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.environment.env_files import EnvFile, FileRef, file_refs, parse_env_file
from actors.podworker.pods.volumes.paths import volume_path
from actors.podworker.pods.volumes.payload import EMPTY_DIR, kind_of, volumes_of
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.process.beneath import LeadsOut, Walk, open_beneath, proc_path

LARGEST = 1 << 20
"""Bytes of an env file."""


def read_env_files(spec: PodSpec, container: ContainerSpec, root: Path) -> dict[FileRef, EnvFile | None]:
    """Return the files by reference. Raises ContainerConfigInvalid."""
    refs = sorted(file_refs(container))
    volumes = {str(volume.get("name") or ""): volume for volume in volumes_of(spec)} if refs else {}
    files: dict[FileRef, EnvFile | None] = {}
    for ref in refs:
        volume = volumes.get(ref.volume)
        if volume is None:
            raise ContainerConfigInvalid(f'cannot find the volume "{ref.volume}" referenced by FileKeyRef')
        if kind_of(volume) != EMPTY_DIR:
            raise ContainerConfigInvalid(f'volume "{ref.volume}" referenced by FileKeyRef must be an emptyDir')
        text = _read(volume_path(spec, volume, root), ref.path)
        files[ref] = parse_env_file(text) if text is not None else None
    return files


def _read(volume: Path, path: str) -> str | None:
    """Return the file's text, None if it does not exist. Links stay in the volume, as after chroot."""
    try:
        top = os.open(volume, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            file = open_beneath(top, path, Walk(in_root=True))
        finally:
            os.close(top)
        try:
            return _text(file, path)
        finally:
            os.close(file)
    except FileNotFoundError:
        return None
    except (LeadsOut, OSError) as error:
        reason = os.strerror(error.errno or 0).lower() if isinstance(error, OSError) else str(error)
        raise ContainerConfigInvalid(f"env file {path!r} cannot be read: {reason}") from None


def _text(file: int, path: str) -> str:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise ContainerConfigInvalid(f"env file {path!r} is no regular file")
    readable = os.open(proc_path(file), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        content = os.pread(readable, LARGEST + 1, 0)
    finally:
        os.close(readable)
    if len(content) > LARGEST:
        raise ContainerConfigInvalid(f"env file {path!r} is larger than {LARGEST} bytes")
    return content.decode(errors="surrogateescape")
