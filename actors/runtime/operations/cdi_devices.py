"""Container Device Interface: find devices by name in the CDI files of this machine and apply their edits.

Files in later directories override those in earlier ones. Two files of one directory that describe the same device make
it unusable.
"""

import itertools
import logging
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.runtime.model.containers import DeviceNode
from actors.runtime.model.errors import CdiUnusable
from protocols.kube.jsons import read_json
from protocols.process.files import read_bounded
from protocols.wire import cri_pb2 as pb


class _NodeEdit(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    uid: int | None = None
    gid: int | None = None


class _CdiMount(msgspec.Struct, frozen=True, rename="camel"):
    host_path: str
    container_path: str
    options: tuple[str, ...] | None = None
    type: str = ""


class _Edits(msgspec.Struct, frozen=True, rename="camel"):
    env: tuple[str, ...] | None = None
    device_nodes: tuple[_NodeEdit, ...] | None = None
    mounts: tuple[_CdiMount, ...] | None = None
    hooks: tuple[Any, ...] | None = None
    additional_gids: tuple[int, ...] | None = msgspec.field(name="additionalGids", default=None)


class _CdiDevice(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    container_edits: _Edits = _Edits()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    cdi_version: str = msgspec.field(name="cdiVersion")
    kind: str
    """VENDOR/CLASS; a device's full name is VENDOR/CLASS=NAME."""
    devices: tuple[_CdiDevice, ...] = ()
    container_edits: _Edits = _Edits()
    """Edits for every container that gets any of the devices."""


LARGEST = 4 << 20
EXPANDED = 1 << 20
"""Characters and values that aliases add to a file."""
MOST_FILES, MOST_BYTES = 1024, 16 << 20
"""Files of a directory, and bytes of all files: parsed, they take ten times as much and are retained."""
MOST_EDITS = 20_000
"""Variables, device nodes, mounts, hooks and groups that the files give one container."""
ENDINGS = {".json", ".yaml", ".yml"}
_LOG = logging.getLogger("runtime")
Stamp = tuple[int, int, int]


class FoundDevice(NamedTuple):
    """Edits of one device, and the common edits of its file."""

    path: Path
    common: _Edits
    own: _Edits


class _Pass(msgspec.Struct):
    """One pass over all files; several run at once."""

    files: dict[Path, tuple[Stamp, _Spec | None]]
    left: int
    """Bytes that may still be read."""


class CdiFiles:
    """CDI files in some directories. Methods block: call them in a thread."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._known: dict[Path, tuple[Stamp, _Spec | None]] = {}
        self._full = False
        """True if the last pass found more than MOST_BYTES."""

    def find(self, names: Sequence[str]) -> list[FoundDevice]:
        """Return devices in the order of `names`. Raises CdiUnusable that names all missing ones."""
        devices = self._devices()
        missing = [name for name in names if len(devices.get(name, ())) != 1]
        if missing:
            twice = [name for name in missing if name in devices]
            why = f"{twice[0]} is described by two files" if twice else f"no file in {self._where()} describes them"
            raise CdiUnusable(f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}: {why}")
        return [devices[name][0] for name in names]

    def _devices(self) -> dict[str, list[FoundDevice]]:
        """Return every device; several entries where files of one directory describe the same one."""
        devices: dict[str, list[FoundDevice]] = {}
        read = _Pass({}, MOST_BYTES)
        for directory in self._directories:
            here: dict[str, list[FoundDevice]] = {}
            for path in _files(directory):
                if (spec := self._read(path, read)) is not None:
                    for device in spec.devices:
                        entry = FoundDevice(path, spec.container_edits, device.container_edits)
                        here.setdefault(f"{spec.kind}={device.name}", []).append(entry)
            devices |= here
        self._known, self._full = read.files, read.left < 0
        return devices

    def _read(self, path: Path, read: _Pass) -> _Spec | None:
        """Return the parsed file; None if unusable, which is logged once per version of the file."""
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                return None  # reading a pipe would block
            if not self._fits(path, status.st_size, read):
                return None
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._known.get(path)
            read.files[path] = (
                known if known is not None and known[0] == stamp else (stamp, _parse(path, status.st_size))
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            _LOG.warning("CDI file skipped path=%s error=%s", path, error.strerror)
            return None
        return read.files[path][1]

    def _fits(self, path: Path, size: int, read: _Pass) -> bool:
        """Count a file; return False beyond MOST_BYTES of all, which is logged once until they fit again."""
        fitted = read.left >= 0
        read.left -= min(size, LARGEST)
        if read.left < 0 and fitted and not self._full:
            _LOG.warning("CDI files skipped from here: more than %d bytes in all path=%s", MOST_BYTES, path)
        return read.left >= 0

    def _where(self) -> str:
        return ", ".join(str(directory) for directory in self._directories)


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix in ENDINGS)[:MOST_FILES]
    except OSError:
        return []


def _parse(path: Path, size: int) -> _Spec | None:
    if size > LARGEST:
        _LOG.warning("CDI file skipped: larger than %d bytes path=%s", LARGEST, path)
        return None
    try:
        return msgspec.convert(_load(path), _Spec, strict=False)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        _LOG.warning("CDI file skipped path=%s error=%s", path, " ".join(str(error).split())[:200])
        return None


def _load(path: Path) -> Any:
    raw = read_bounded(path)
    if path.suffix == ".json":
        return read_json(raw)
    import yaml

    from protocols.kube.yaml_text import read_yaml

    try:
        return read_yaml(raw, EXPANDED).value
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


ANNOTATION = "cdi.k8s.io/"
"""Prefix of annotations by which device plugins name CDI devices, separated by commas, without the field."""


def requested_devices(config: pb.ContainerConfig) -> list[str]:
    """Return the names of a container's CDI devices: those of the field, then those of annotations."""
    noted = (config.annotations[key].split(",") for key in sorted(config.annotations) if key.startswith(ANNOTATION))
    return list(dict.fromkeys(itertools.chain((device.name for device in config.CDI_devices), *noted)))


BINDS = ("", "bind", "none")
NODE_KINDS = {"b": stat.S_ISBLK, "c": stat.S_ISCHR, "u": stat.S_ISCHR, "p": stat.S_ISFIFO}
"""Types of device nodes in CDI files, with the test of a file's mode."""


def apply_devices(
    config: pb.ContainerConfig, found: Sequence[FoundDevice], own_root: bool, made: Collection[str] = ()
) -> pb.ContainerConfig:
    """Return a copy with the edits; the common edits of a file are applied once. Raises CdiUnusable.

    `made`: paths of device nodes that the container gets otherwise.
    """
    edits = list(_edits(found))
    if (count := sum(map(_size, edits))) > MOST_EDITS:
        raise CdiUnusable(
            f"CDI device injection failed: {count} edits of a container, at most {MOST_EDITS} are allowed"
        )
    if own_root and any(edit.hooks for edit in edits):
        raise CdiUnusable(
            "CDI device injection failed: its file asks for hooks, which the embedded runtime does not run; use "
            "containerd, or an image of the host's own files, which need none"
        )
    changed = pb.ContainerConfig()
    changed.CopyFrom(config)
    for edit in edits:
        _apply(changed, edit, made)
    _set_variables(changed, [_pair(variable) for edit in edits for variable in edit.env or ()])
    return changed


def _edits(found: Sequence[FoundDevice]) -> Iterator[_Edits]:
    """Yield the edits in order, the common ones of a file before those of its first device."""
    seen: set[Path] = set()
    for entry in found:
        if entry.path not in seen:
            seen.add(entry.path)
            yield entry.common
        yield entry.own


def _size(edit: _Edits) -> int:
    return sum(len(part or ()) for part in (edit.env, edit.device_nodes, edit.mounts, edit.hooks, edit.additional_gids))


def _apply(config: pb.ContainerConfig, edit: _Edits, made: Collection[str]) -> None:
    """Add all but the variables. Raises CdiUnusable."""
    for node in edit.device_nodes or ():
        if node.path not in made:
            config.devices.add(container_path=node.path, host_path=node.host_path or node.path, permissions="rwm")
    for mount in edit.mounts or ():
        if mount.type not in BINDS:
            raise CdiUnusable(f'CDI device injection failed: mount of type "{mount.type}" at {mount.container_path}')
        readonly = "ro" in (mount.options or ())
        config.mounts.add(container_path=mount.container_path, host_path=mount.host_path, readonly=readonly)
    config.linux.security_context.supplemental_groups.extend(edit.additional_gids or ())


def missing_nodes(found: Sequence[FoundDevice]) -> tuple[DeviceNode, ...]:
    """Return the device nodes that must be made: the host has none with these numbers. Blocks. Raises CdiUnusable."""
    nodes = (node for entry in found for edit in (entry.common, entry.own) for node in edit.device_nodes or ())
    return tuple(missing for node in dict.fromkeys(nodes) if (missing := _missing(node)) is not None)


def _missing(node: _NodeEdit) -> DeviceNode | None:
    place = node.host_path or node.path
    if node.type not in ("", *NODE_KINDS):
        raise CdiUnusable(f'CDI device injection failed: device node {node.path} has the type "{node.type}"')
    described = bool(node.type) and (node.major != 0 or node.type == "p")
    try:
        status = os.stat(place)
    except OSError as error:
        if not described:
            why = os.strerror(error.errno or 0).lower()
            raise CdiUnusable(f'CDI device injection failed: failed to stat CDI host device "{place}": {why}') from None
    else:
        same = described and _numbers(node) == (os.major(status.st_rdev), os.minor(status.st_rdev))
        if (same or not described) and _is_kind(status.st_mode, node.type):
            return None
        if not described:
            raise CdiUnusable(f'CDI device injection failed: "{place}" is no device of type "{node.type or "c or b"}"')
    uid, gid = (-1 if number is None else number for number in (node.uid, node.gid))
    mode = 0o666 if node.file_mode is None else node.file_mode & 0o7777
    return DeviceNode(node.path, node.type, node.major, node.minor, mode, uid, gid)


def _numbers(node: _NodeEdit) -> tuple[int, int]:
    return node.major, node.minor


def _is_kind(mode: int, kind: str) -> bool:
    if not kind:
        return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode)
    return NODE_KINDS[kind](mode)


def _set_variables(config: pb.ContainerConfig, pairs: Sequence[tuple[str, str]]) -> None:
    """Set variables; a device overrides the container, the last device the others."""
    values = dict(pairs)
    kept = [pair for pair in config.envs if pair.key not in values]
    del config.envs[:]
    config.envs.extend(kept)
    config.envs.extend(pb.KeyValue(key=name, value=value.encode()) for name, value in values.items())


def _pair(variable: str) -> tuple[str, str]:
    name, sign, value = variable.partition("=")
    if not name or not sign:
        raise CdiUnusable(f'CDI device injection failed: "{variable[:80]}" is no variable')
    return name, value
