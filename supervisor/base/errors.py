"""What can go wrong around the supervisor; the text is what a person reads, with the mend."""

import errno
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from protocols.errors import NodeplaneError, SettingsInvalid


class SupervisorError(NodeplaneError):
    """Base class. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class Usage(SupervisorError):
    """Raised for flags, names and paths that cannot be used."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    exit_code: ClassVar[int] = 2


class AlreadyRunning(SupervisorError):
    """Raised when another supervisor holds the root or the group."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class PortTaken(SupervisorError):
    """Raised before anything is started when the API's port is in use by somebody else."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class RootUnusable(SupervisorError):
    """Raised when ROOT cannot be made or written: permissions, a full disk, a file in its place."""


class DirectoryNotTrusted(RootUnusable):
    """Raised when ROOT, or a directory of keys and state below it, is somebody else's to write or to replace."""

    http: ClassVar[int] = 403
    grpc: ClassVar[str] = "PERMISSION_DENIED"


class PkiFailed(SupervisorError):
    """Raised when certificates cannot be made or written."""


class ForkserverLost(SupervisorError):
    """Raised when the forkserver cannot be started at all."""


class PlaneFailed(SupervisorError):
    """Raised when a critical actor broke its restart budget: the supervisor ends and says why."""


class NoSuchActor(SupervisorError):
    """Raised when an order names an instance this supervisor does not run."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class NotRunning(SupervisorError):
    """Raised by commands that need a plane when none answers below the root."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class ForeignPackage(SupervisorError):
    """Raised when `supervisor`, `protocols` or `actors` come from another distribution."""


SPACE = "free some space, then try again"
RIGHTS = "mend permissions, then try again"
MENDS = {
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EROFS: RIGHTS,
    errno.EMFILE: "allow more open files (ulimit -n), then try again",
}
UNFORESEEN = "try again; should it stay, report it as a fault of nodeplane"


def guard(work: Callable[[], int]) -> int:
    """Run a command and return its exit code."""
    try:
        return work()
    except NodeplaneError as error:
        return _complain(explain(error), exit_code(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        return 0
    except OSError as error:
        return _complain(explain(error), 1)
    except KeyboardInterrupt:
        return 1


def exit_code(error: Exception) -> int:
    if isinstance(error, SettingsInvalid):
        return 2
    return error.exit_code if isinstance(error, SupervisorError) else 1


def explain(error: Exception) -> str:
    """One line: what is wrong, and where."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; {MENDS.get(error.errno or 0, UNFORESEEN)}"
    return str(error)


def _complain(text: str, code: int) -> int:
    print(f"nodeplane: {text}", file=sys.stderr)
    return code


PACKAGES = {"supervisor": "__main__.py", "protocols": "process/settings.py", "actors": "__init__.py"}
OURS = Path(__file__).resolve().parent.parent.parent


def check_packages() -> None:
    """Raises ForeignPackage when one of them belongs to another distribution."""
    for name, witness in PACKAGES.items():
        spec = importlib.util.find_spec(name)
        folder = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if folder is None or folder.parent != OURS or not (folder / witness).exists():
            raise ForeignPackage(
                f"package {name!r} is not nodeplane's own (found {folder or 'none'}): another distribution installed"
                f" a folder of that name; install nodeplane in an environment of its own (venv, uv tool, container)"
            )
