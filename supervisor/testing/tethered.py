"""Run a command line that ends when the process that started it does.

`python -m supervisor.testing.tethered PID ROOT ARG…` removes ROOT, unless that is "", if the process PID ended first,
and ends the programs that it had started beside the plane.

The kernel sends ENDED when the starting thread ends, and again for each further thread of a killed process. It becomes
one SIGINT, which stops a plane and its containers: a second one would end the plane at once and leave both behind.
The signal is asked for here and not between fork and exec: code in a fork of a process with threads, as a test with
gRPC is, may hang.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from protocols.process.linux import die_with_parent

ENDED = signal.SIGUSR1


def main() -> int:
    """Return the exit code of the command line."""
    parent, temporary = int(sys.argv[1]), sys.argv[2]
    signal.signal(ENDED, _interrupt)
    die_with_parent(ENDED)
    if os.getppid() != parent:  # it ended before the request
        return 0
    from supervisor.cli.main import main as run

    sys.argv[1:] = sys.argv[3:]
    code = run()
    if temporary and os.getppid() != parent:
        _clean_up(Path(temporary))
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(ENDED, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGINT)


def _clean_up(root: Path) -> None:
    """Do what nobody else is left to do: programs may use the node until it ends, and the root has private keys."""
    from supervisor.root.leftovers import unmount_below
    from supervisor.testing.plane import PROGRAMS, remove_root
    from supervisor.testing.programs import end_all

    end_all(root / PROGRAMS)
    unmount_below(root)
    remove_root(root)


if __name__ == "__main__":
    sys.exit(main())
