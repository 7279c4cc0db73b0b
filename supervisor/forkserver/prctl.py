"""Linux calls that the standard library lacks: parent-death signal and process name."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when `parent` dies; at once if it is dead already."""
    if _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it died before the signal was asked for
        os._exit(1)


def set_name(name: str) -> None:
    """The name `ps -o comm` and `top` show, first 15 bytes."""
    _libc.prctl(PR_SET_NAME, name.encode()[:15] + b"\0", 0, 0, 0)
