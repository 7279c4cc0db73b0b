"""Files of one shim, relative to its directory: what the next runtime reads when it adopts the container."""

import errno
import json
import os
from typing import Any

SPEC = "spec.json"
"""What to run; written by the runtime before it orders the start."""
STARTED = "started.json"
"""Written before the container's process exists (`pid` 0) and again once it runs."""
EXIT = "exit.json"
"""Exit code, signal and time: on disk before anyone is told."""
SOCKET = "shim.sock"
"""Where a later runtime connects. While a shim lives, a connection to it stays open."""
TRACE = "shim.err"
"""Traceback of a shim that failed; there is none unless it has a fault."""

Record = dict[str, Any]


def read(name: str) -> Record:
    with open(name, "rb") as file:
        record: Record = json.load(file)
        return record


def write(name: str, record: Record, durable: bool) -> None:
    """Replace the file; `durable` also survives a loss of power. Raises OSError and leaves the old file."""
    temporary = f".{name}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = json.dumps(record).encode()
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, name)
    if durable:
        _sync_directory()


def _sync_directory() -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
