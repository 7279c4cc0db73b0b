"""Errors of supervisor and command line, their exit codes, and how they become one line for the user.

The text of an error says what failed and how to fix it.
"""

import errno
import importlib.util
import io
import os
import pwd
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from protocols.errors import NodeplaneError, SettingsInvalid
from protocols.process.texts import printable


class SupervisorError(NodeplaneError):
    """Base class. `exit_code` is that of the command line."""

    exit_code: ClassVar[int] = 1


class UsageError(SupervisorError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised for flags, names and paths that cannot be used."""

    exit_code: ClassVar[int] = 2


class AlreadyRunning(SupervisorError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when another supervisor holds the root or the group."""


class PortTaken(SupervisorError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised before anything is started when a port, of the API or of the console's server, is in use."""


class RootUnusable(SupervisorError):
    """Raised when ROOT cannot be made or written: permissions, a full disk, a file in its place."""


class RootTooNew(RootUnusable, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when a newer release wrote ROOT in a format that this one does not read."""


class DirectoryNotTrusted(RootUnusable, http=403, grpc="PERMISSION_DENIED"):
    """Raised when ROOT, or a directory of keys and state below it, can be written or replaced by another user."""


class PkiFailed(SupervisorError):
    """Raised when certificates cannot be made or written."""


class ForkserverLost(SupervisorError):
    """Raised when the forkserver cannot be started."""


class PlaneFailed(SupervisorError):
    """Raised when a critical actor exceeds its restart budget; the supervisor ends."""


class NoSuchActor(SupervisorError, http=404, grpc="NOT_FOUND"):
    """Raised when an order names an instance this supervisor does not run."""


class NotRunning(SupervisorError, http=503, grpc="UNAVAILABLE"):
    """Raised by commands that need a plane when none answers below the root."""


class NotOwner(SupervisorError, http=403, grpc="PERMISSION_DENIED"):
    """Raised by commands that need a plane, or a socket, of another user."""


class ForeignPackage(SupervisorError):
    """Raised when `supervisor`, `protocols` or `actors` come from another distribution."""


SPACE = "free some space, then try again"
RIGHTS = "mend permissions, then try again"
PLACE = "check the path"
FIXES = {
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EROFS: RIGHTS,
    errno.ENOENT: PLACE,
    errno.ENOTDIR: PLACE,
    errno.EISDIR: PLACE,
    errno.EEXIST: PLACE,
    errno.ELOOP: PLACE,
    errno.ENAMETOOLONG: PLACE,
    errno.ENOEXEC: "begin a script with its interpreter (#!/bin/sh), or build the program for this machine",
    errno.EMFILE: "allow more open files (ulimit -n), then try again",
}
UNKNOWN_FIX = "try again; should it stay, report it as a fault of nodeplane"


def did_you_mean(name: str, known: Mapping[str, str], cutoff: float = 0.6) -> str:
    """Return `did you mean X? `, X being the value of the known name that is nearest; "" if none is near.

    `cutoff`: how near, from 0 to 1 for the same name.
    """
    import difflib  # a name that is right does without

    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"did you mean {known[near[0]]}? " if near else ""


def guard(work: Callable[[], int]) -> int:
    """Run a command and return its exit code: 1 for failures, 2 for usage errors, 130 after Ctrl-C.

    Errors are printed as one line.
    """
    _open_streams()
    try:
        return work()
    except NodeplaneError as error:
        return _print_error(explain(error), exit_code(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter reports it at exit
        return 0
    except OSError as error:
        return _print_error(explain(error), 1)
    except UnicodeEncodeError as error:  # bytes of an argument or a variable
        return _print_error(f"{error.object} is no UTF-8; use another name", UsageError.exit_code)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _open_streams() -> None:
    """Make streams that a caller closed, and let standard output replace what its encoding has not by escapes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def until_interrupted(work: Callable[[], object]) -> int:
    """Run what goes on until Ctrl-C and return the exit code: that is its clean end."""
    with suppress(KeyboardInterrupt):
        work()
    return 0


def exit_code(error: Exception) -> int:
    """Return the exit code of a command that ended with this error: 2 for usage and settings, 1 for unknown errors."""
    if isinstance(error, SettingsInvalid):
        return 2
    return error.exit_code if isinstance(error, SupervisorError) else 1


def explain(error: Exception) -> str:
    """Return what failed, where, and how to fix it, in one line."""
    if isinstance(error, PermissionError) and isinstance(error.filename, str):
        path, owner = Path(error.filename), owner_of(Path(error.filename))
        if _uid_of(path) != os.geteuid():
            mend = f"run this as {owner}, or use a directory of your own (a plane's: --root)"
            return f"{path}: permission denied: it is {owner}'s; {mend}"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; {FIXES.get(error.errno or 0, UNKNOWN_FIX)}"
    return str(error)


def owner_of(path: Path) -> str:
    """Return the user who owns a path, or the nearest parent that can be reached."""
    try:
        return pwd.getpwuid(_uid_of(path)).pw_name
    except KeyError:
        return "another user"


def _uid_of(path: Path) -> int:
    for place in (path, *path.parents):
        with suppress(OSError):
            return place.stat().st_uid
    return -1


LONGEST_ERROR = 4096
"""Characters of an error that are printed: it may quote a line of a file."""


def _print_error(text: str, code: int) -> int:
    from supervisor.base import journal  # a command that succeeds does without

    line = f"nodeplane: {printable(text[:LONGEST_ERROR])}"
    print(journal.for_journal(line, journal.ERROR) if journal.is_journal(journal.STDERR) else line, file=sys.stderr)
    return code


PACKAGES = {"supervisor": "__main__.py", "protocols": "process/settings.py", "actors": "__init__.py"}
OURS = Path(__file__).resolve().parent.parent.parent


def check_packages() -> None:
    """Raise ForeignPackage if a package of ours was replaced by another distribution: their names are common."""
    for name, witness in PACKAGES.items():
        spec = importlib.util.find_spec(name)
        folder = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if folder is None or folder.parent != OURS or not (folder / witness).exists():
            raise ForeignPackage(
                f"package {name!r} is not nodeplane's own (found {folder or 'none'}): another distribution installed"
                f" a folder of that name; install nodeplane in an environment of its own (venv, uv tool, container)"
            )
