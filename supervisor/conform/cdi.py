"""Names of CDI devices, and those that the files of a directory declare."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import yaml

from protocols.kube.yaml_text import read_yaml
from protocols.process.files import read_bounded
from protocols.process.layout import SYSTEM_CDI
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.base.errors import SupervisorError
from supervisor.conform.scripts import several
from supervisor.conform.verdict import Failed

QUALIFIED = re.compile(
    r"[A-Za-z]([-\w.]*[A-Za-z0-9])?/[A-Za-z]([-\w]*[A-Za-z0-9])?=[A-Za-z0-9]([-\w.:]*[A-Za-z0-9])?", re.ASCII
)
"""VENDOR/CLASS=NAME"""
SUFFIXES = (".json", ".yaml")
ANNOTATION = "cdi.k8s.io/"


class CdiInvalid(SupervisorError):
    """Raised for a CDI file that no runtime can read."""

    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class Declared(NamedTuple):
    names: set[str]
    """Qualified names of all devices."""
    faults: list[str]
    """Files that no runtime can read: it goes on without them, so that another vendor's does no harm."""


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


def declared(folders: Iterable[Path]) -> Declared:
    """Return what the files of some directories declare."""
    found = Declared(set(), [])
    for path in (path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())):
        try:
            found.names.update(_names(path) if path.suffix in SUFFIXES else ())
        except CdiInvalid as error:
            found.faults.append(str(error))
    return found


async def check_declared(names: Set[str], folders: Sequence[Path]) -> None:
    """Raise Failed if no file of the directories declares one of the names."""
    known = await asyncio.to_thread(declared, folders)
    if missing := [f"no file declares {name}" for name in sorted(names - known.names)]:
        raise Failed(several([*known.faults, *missing]) + f", in {' or '.join(map(str, folders))}")


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
