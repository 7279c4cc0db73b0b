"""Sockets of plugins and drivers, of which several instances may run side by side, as during an update."""

import os
import secrets
from pathlib import Path

from protocols.process.sockets import answers, is_socket

LENGTH = 8
"""Characters of a pod's uid in names of sockets, whose paths have at most 107."""


def instance_name() -> str:
    """Return the begin of the pod's uid, or else a random text. A pid is 1 in each container."""
    return os.environ.get("POD_UID", "")[:LENGTH] or secrets.token_hex(LENGTH // 2)


def remove_dead(folder: Path, pattern: str) -> None:
    """Remove the sockets of instances that were killed: the node would go on connecting to them."""
    for path in folder.glob(pattern):
        if is_socket(path) and not answers(path):
            path.unlink(missing_ok=True)
