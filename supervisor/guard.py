"""The edge to people: every known error becomes one line and an exit code, 1 for failures, 2 for usage."""

import errno
import os
import sys
from collections.abc import Callable

from protocols.errors import NodeplaneError, SettingsInvalid
from supervisor.errors import SupervisorError

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
