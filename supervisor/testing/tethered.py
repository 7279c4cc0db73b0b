"""Run a command line that ends when the process that started it does.

`python -m supervisor.testing.tethered PID ROOT ARG…` removes ROOT, unless that is "", if the process PID ended first.

The kernel sends SIGINT, which stops a plane and its containers, when the starting thread ends. Asked for here and not
between fork and exec: code in a fork of a process with threads, as a test with gRPC is, may hang.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Return the exit code of the command line."""
    parent, temporary = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the request
        return 0
    from supervisor.cli.main import main as run

    sys.argv[1:] = sys.argv[3:]
    code = run()
    if temporary and os.getppid() != parent:
        _remove(Path(temporary))
    return code


def _remove(root: Path) -> None:
    """Remove what nobody is left to remove: the root has private keys."""
    from supervisor.root.leftovers import unmount_below
    from supervisor.testing.plane import remove_root

    unmount_below(root)
    remove_root(root)


if __name__ == "__main__":
    sys.exit(main())
