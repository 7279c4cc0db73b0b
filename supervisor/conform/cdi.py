"""Names of CDI devices, those that the files of a directory declare, and faults for which runtimes reject a file."""

import asyncio
import itertools
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from protocols.kube.yaml_text import read_yaml
from protocols.process.files import read_bounded
from protocols.process.layout import SYSTEM_CDI
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.base.errors import SupervisorError
from supervisor.conform.scripts import several
from supervisor.conform.verdict import Failed

QUALIFIED = re.compile(
    r"[A-Za-z]([-\w.]*[A-Za-z0-9])?/[A-Za-z]([-\w.]*[A-Za-z0-9])?=[A-Za-z0-9]([-\w.:]*[A-Za-z0-9])?", re.ASCII
)
"""VENDOR/CLASS=NAME"""
SUFFIXES = (".json", ".yaml")
ANNOTATION = "cdi.k8s.io/"
BOUND = ("", "bind", "none")
"""Types of mounts whose hostPath is a path of the host; that of a tmpfs is none."""


class CdiInvalid(SupervisorError, grpc="FAILED_PRECONDITION"):
    """Raised for a CDI file that no runtime can read."""


class _Declared(NamedTuple):
    files: dict[str, list[Path]]
    """The files that declare a device, by its qualified name."""
    faults: list[str]
    """Files that no runtime can read: it goes on without them, so that another vendor's does no harm."""

    @property
    def names(self) -> set[str]:
        """Names of the devices that a runtime has: of two files of one directory it takes neither."""
        return {name for name in self.files if not self.conflict(name)}

    def conflict(self, name: str) -> str:
        """Return which files of one directory declare a device both; empty if none do."""
        files = self.files.get(name, [])
        for first, second in itertools.pairwise(files):
            if first.parent == second.parent:
                return f"{first.name} and {second.name} both declare {name}: runtimes take neither"
        return ""


def folders_of(environment: Mapping[str, str]) -> list[Path]:
    """Return the directories of CDI files: that of a program with these variables first, if they name one."""
    own = environment.get("CDI_ROOT")
    return list(dict.fromkeys([*([Path(own)] if own else []), *SYSTEM_CDI]))


def names_of(answer: pb.ContainerAllocateResponse) -> Iterator[str]:
    """Yield the names that an answer to Allocate has, in annotations as well."""
    yield from (device.name for device in answer.cdi_devices)
    for key, value in answer.annotations.items():
        if key.startswith(ANNOTATION):
            yield from value.split(",")


def declared(folders: Iterable[Path]) -> _Declared:
    """Return what the files of some directories declare."""
    declarations = _Declared({}, [])
    for path in (path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())):
        try:
            for name in _names(path) if path.suffix in SUFFIXES else ():
                declarations.files.setdefault(name, []).append(path)
        except CdiInvalid as error:
            declarations.faults.append(str(error))
    return declarations


async def check_declared(names: Set[str], folders: Sequence[Path]) -> None:
    """Raise Failed if no file of the directories declares one of the names."""
    known = await asyncio.to_thread(declared, folders)
    missing = sorted(names - known.names)
    if conflicts := list(filter(None, map(known.conflict, missing))):
        raise Failed(several(conflicts))
    if missing:
        absent = [f"no file declares {name}" for name in missing]
        findings = [*absent[:1], *known.faults, *absent[1:]]  # a file that cannot be read may be another vendor's
        raise Failed(several(findings) + f", in {' or '.join(map(str, folders))}")


def files_of(folder: Path, names: Set[str]) -> list[Path]:
    """Return the files of a directory that declare one of the names."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES) if folder.is_dir() else []
    return [path for path in paths if declared_by(path) & names]


def declared_by(path: Path) -> set[str]:
    """Return what a file declares, nothing if no runtime can read it."""
    try:
        return _names(path)
    except CdiInvalid:
        return set()


def faults_in(folders: Iterable[Path], names: Set[str]) -> tuple[list[Path], list[str]]:
    """Return the files that declare one of the names, and what keeps a runtime from using them."""
    files = [path for folder in folders for path in files_of(folder, names)]
    specs = [(path, read_spec(path)) for path in files]
    return files, [f"{path.name}: {fault}" for path, spec in specs for fault in (*faults_of(spec), *absent(spec))]


def absent(spec: Any) -> Iterator[str]:
    """Yield a sentence for each path of the host that the edits need and that is not there."""
    for path in nodes_of(spec):
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):  # below a file, too long, with a NUL
            yield f"{path}, a device node, does not exist"
        else:
            if not is_device(mode):
                yield f"{path} is no device node"
    for path, kind in mounts_of(spec):
        if kind in BOUND and not os.path.exists(path):
            yield f"{path}, which is mounted, does not exist"


def is_device(mode: int) -> bool:
    """Return True for a mode that CDI takes as a device node: character, block or FIFO."""
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode)


def read_spec(path: Path) -> Any:
    """Raises CdiInvalid, FileNotFoundError."""
    try:
        return read_yaml(read_bounded(path)).value
    except FileNotFoundError:
        raise
    except (OSError, yaml.YAMLError) as error:
        raise CdiInvalid(f"{path} is no CDI file: {type(error).__name__}") from None


def _names(path: Path) -> set[str]:
    try:
        spec = read_spec(path)
        return {f"{spec['kind']}={device['name']}" for device in spec["devices"]}
    except FileNotFoundError:  # removed meanwhile
        return set()
    except (KeyError, TypeError) as error:
        raise CdiInvalid(f"{path} is no CDI file: {type(error).__name__}") from None


VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""All that were released."""
NODES = {"", "b", "c", "u", "p"}
NO_PERMISSIONS = "none"
HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}


def faults_of(spec: Any) -> Iterator[str]:
    """Yield a sentence for each fault of a file that declares devices: the runtime goes on without the file."""
    yield from _version_faults(spec)
    counts = Counter(str(device["name"]) for device in spec["devices"])
    yield from (f"the device {name} is there {count} times" for name, count in counts.items() if count > 1)
    for device in spec["devices"]:
        edits = device.get("containerEdits")
        if not isinstance(edits, Mapping) or not any(edits.values()):
            yield f"the device {device['name']} has no containerEdits"
        else:
            yield from (f"{fault}, of device {device['name']}" for fault in _edits(edits))
    if isinstance(common := spec.get("containerEdits"), Mapping):
        yield from _edits(common)


def _version_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fault of the version: it is none, or older than what the file uses."""
    version = str(spec.get("cdiVersion")).removeprefix("v")
    if version not in VERSIONS:
        yield f"cdiVersion is {spec.get('cdiVersion')!r}, the releases are {VERSIONS[0]} to {VERSIONS[-1]}"
        return
    least, what = max(_uses(spec), key=lambda use: VERSIONS.index(use[0]), default=(VERSIONS[0], ""))
    if VERSIONS.index(version) < VERSIONS.index(least):
        yield f"cdiVersion is {version}, and {what} needs {least}"


def _uses(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the file uses, each with the first version that has it."""
    devices = [device for device in spec["devices"] if isinstance(device, Mapping)]
    if "." in str(spec.get("kind")).partition("/")[2]:
        yield "0.6.0", "a class with a dot"
    if any(holder.get("annotations") for holder in (spec, *devices)):
        yield "0.6.0", "annotations"
    for name in (str(device["name"]) for device in devices):
        if name[:1].isdigit():
            yield "0.5.0", f"the name {name}, which begins with a digit,"
    for edits in _all_edits(spec):
        yield from _uses_of_edits(edits)


def _uses_of_edits(edits: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if any(mount.get("type") for mount in _objects(edits, "mounts")):
        yield "0.4.0", "the type of a mount"
    if any(node.get("hostPath") for node in _objects(edits, "deviceNodes")):
        yield "0.5.0", "hostPath of a device node"
    yield from (("0.7.0", name) for name in ("intelRdt", "additionalGids") if edits.get(name))
    if edits.get("netDevices"):
        yield "1.1.0", "netDevices"


def _edits(edits: Mapping[str, Any]) -> Iterator[str]:
    for variable in _list(edits, "env"):
        if not isinstance(variable, str) or not variable.partition("=")[0] or "=" not in variable:
            yield f"env has {variable!r}, not NAME=VALUE"
    for node in _objects(edits, "deviceNodes"):
        if not node.get("path"):
            yield "a device node has no path"
        if str(node.get("type") or "") not in NODES:
            yield f"a device node has the type {node['type']!r}"
        if set(permissions := str(node.get("permissions") or "")) - set("rwm") and permissions != NO_PERMISSIONS:
            yield f"a device node has the permissions {node['permissions']!r}"
    for mount in _objects(edits, "mounts"):
        if not mount.get("hostPath") or not mount.get("containerPath"):
            yield "a mount has no hostPath or no containerPath"
    for hook in _objects(edits, "hooks"):
        if str(hook.get("hookName")) not in HOOKS or not hook.get("path"):
            yield f"a hook has the name {hook.get('hookName')!r} and the path {hook.get('path')!r}"


def nodes_of(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths on the host of device nodes of which the runtime reads the numbers there."""
    for edits in _all_edits(spec):
        for node in _objects(edits, "deviceNodes"):
            if not (node.get("type") and (node.get("major") or node["type"] == "p")):
                yield str(node.get("hostPath") or node.get("path"))


def mounts_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the paths on the host of mounts, and their types."""
    for edits in _all_edits(spec):
        yield from ((str(mount.get("hostPath")), str(mount.get("type") or "")) for mount in _objects(edits, "mounts"))


def _all_edits(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    candidates = (holder.get("containerEdits") for holder in (spec, *spec["devices"]) if isinstance(holder, Mapping))
    return (edits for edits in candidates if isinstance(edits, Mapping))


def _list(edits: Mapping[str, Any], name: str) -> Sequence[Any]:
    entries = edits.get(name) or ()
    return entries if isinstance(entries, list) else ()


def _objects(edits: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in _list(edits, name) if isinstance(entry, Mapping))
