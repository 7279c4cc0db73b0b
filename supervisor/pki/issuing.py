"""Issue missing certificates in a process of its own while the supervisor starts.

It is a fork of the supervisor, which has one thread and no loop yet: an interpreter of its own would take twice its
CPU. Only the fork loads cryptography.
"""

import os
import select
from pathlib import Path
from typing import NoReturn

from supervisor.base.errors import PkiFailed, explain
from supervisor.forkserver import child
from supervisor.forkserver.client import ForkedProcess
from supervisor.pki import certificates
from supervisor.pki.certificates import Wanted

ISSUE_S = 30.0
REASON_BYTES = 4096
"""A pipe holds as much without a reader."""


class Issuing:
    """The process that issues certificates."""

    def __init__(self, pki: Path, what: Wanted) -> None:
        """Raises OSError."""
        parent = os.getpid()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        child.flush()
        pid = os.fork()
        if pid == 0:
            _run(parent, pki, what, writing)
        os.close(writing)
        self._process, self._reason = ForkedProcess(pid), reading

    def wait(self) -> None:
        """Block until it has ended. Raises PkiFailed with its reason."""
        late = not _ended(self._process.pid, ISSUE_S)
        if late:
            self._process.kill()
        code, reason = self._process.wait(), os.read(self._reason, REASON_BYTES)
        os.close(self._reason)
        if late:
            raise PkiFailed(f"making certificates took more than {ISSUE_S:g} s; is the machine overloaded?")
        if code != 0:
            raise PkiFailed(f"cannot make certificates: {reason.decode(errors='replace') or 'no reason given'}")


def issue_missing(pki: Path, what: Wanted) -> Issuing | None:
    """Start issuing if certificates are missing, expire soon or have other names; return None if none are.

    Call it before the process has a second thread or a loop.
    """
    return None if certificates.current(pki, what) else Issuing(pki, what)


def _run(parent: int, pki: Path, what: Wanted, report_to: int) -> NoReturn:
    from protocols.process.tasks import one_line  # loaded before the first fork, not by a command that starts nothing

    code = 1
    try:
        child.die_with_parent(parent)
        from supervisor.pki.issue import issue  # loads cryptography

        issue(pki, what)
        code = 0
    except Exception as error:
        reason = str(error) if isinstance(error, PkiFailed) else one_line(error)
        reason = explain(error) if isinstance(error, OSError) else reason
        os.write(report_to, reason.encode()[:REASON_BYTES])
    finally:
        os._exit(code)


def _ended(pid: int, timeout: float) -> bool:
    """Block until our child `pid` has ended, without polling; return False after `timeout` seconds."""
    handle = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(timeout * 1000))
    finally:
        os.close(handle)
