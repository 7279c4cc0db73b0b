"""First steps of a container's process: session, descriptors, signals, limits, namespaces, user, then exec."""

import base64
import contextlib
import errno
import fcntl
import os
import select
import signal
import stat
import termios
from typing import Any, NamedTuple, NoReturn

from actors.runtime.shim import isolation, system
from actors.runtime.shim.isolation import NOTHING, Isolation
from protocols.process import linux

START_ERROR = 128
_FIRST_OPEN = 3
_LAST_OPEN = 4096


class Spec(NamedTuple):
    """Content of spec.json. An empty `argv` sleeps until SIGTERM, like the pause image."""

    argv: list[str]
    env: dict[bytes, bytes]
    cwd: str
    log: str
    tty: bool
    uid: int
    gid: int
    groups: list[int]
    no_new_privs: bool
    isolation: Isolation = NOTHING
    stdin: bool = False
    cgroups: tuple[str, ...] = ()
    oom: str = ""
    """File with the counter of OOM kills; empty without a memory limit."""
    oom_score: int = 0
    """Value of oom_score_adj; 0 = as inherited from the plane."""
    cpus: tuple[int, ...] = ()
    """CPU affinity; empty if a cpuset cgroup sets it or none is requested."""
    dropped: tuple[int, ...] = ()
    """Numbers of the capabilities removed from the bounding set."""


class Stdio(NamedTuple):
    """Descriptors of a child; with a terminal all three are the same."""

    stdin: int
    stdout: int
    stderr: int
    terminal: bool = False


def parse(record: dict[str, Any]) -> Spec:
    """Read the process's specification, in which environment variables are base64."""
    env = {base64.b64decode(name): base64.b64decode(value) for name, value in record["env"]}
    return Spec(**{**record, "env": env, "isolation": isolation.parse(record.get("isolation"))})


def spawn(spec: Spec, argv: list[str], stdio: Stdio, beside: int = 0) -> tuple[int, str]:
    """Fork and exec, in the namespaces of process `beside` if given. Return (pid, "") or (0, error)."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        _become(spec, argv, (stdio, writable), beside)
    os.close(writable)
    with os.fdopen(readable, "rb") as report:
        error = report.read().decode(errors="replace")
    if error:
        os.waitpid(pid, 0)
        return 0, error
    return pid, ""


def _become(spec: Spec, argv: list[str], ends: tuple[Stdio, int], beside: int) -> NoReturn:
    stdio, report = ends
    try:
        _own_session(spec, stdio)
        _default_signals()
        os.umask(0o022)
        if not os.path.isabs(spec.cwd):
            raise RuntimeError(f'working directory "{spec.cwd}" is not an absolute path')
        _limit(spec, beside)
        isolation.enter(spec.isolation, beside, spec.cwd)
        _enter(spec)
        linux.die_with_parent(signal.SIGKILL)  # after the change of user, which clears it
        if _orphaned(report):
            os._exit(START_ERROR)
        if not argv:
            _sleep()
        os.execvpe(argv[0], argv, spec.env)
    except OSError as error:
        os.write(report, _explain(argv, error).encode(errors="replace"))
    except BaseException as error:
        os.write(report, str(error).encode(errors="replace"))
    os._exit(START_ERROR)


def _own_session(spec: Spec, stdio: Stdio) -> None:
    os.setsid()
    for number, descriptor in enumerate(stdio[:3]):
        os.dup2(descriptor, number)
    if stdio.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if spec.uid >= 0 and os.geteuid() == 0:
        _own_streams(spec.uid)


def _own_streams(uid: int) -> None:
    """Give terminal and pipes to the user, who could not open /dev/stdout otherwise."""
    for number in range(3):
        if os.isatty(number) or stat.S_ISFIFO(os.fstat(number).st_mode):
            os.fchown(number, uid, -1)


def _default_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _orphaned(report: int) -> bool:
    """Return True when the parent died before the parent-death signal was set.

    Then its end of the report pipe is closed. getppid would not show it in a PID namespace.
    """
    poll = select.poll()
    poll.register(report, 0)
    return bool(poll.poll(0))


def _limit(spec: Spec, beside: int) -> None:
    system.join_cgroups(spec.cgroups)
    if spec.cpus:
        with contextlib.suppress(OSError):  # a CPU that went offline is no reason not to start
            os.sched_setaffinity(0, os.sched_getaffinity(beside) if beside else spec.cpus)
    if spec.oom_score:
        system.adjust_oom_score(spec.oom_score)


def _enter(spec: Spec) -> None:
    for number in spec.dropped:
        system.drop_capability(number)
    inside = _is_directory_entered(spec.cwd)
    change = spec.uid >= 0 and (spec.uid, spec.gid) != (os.geteuid(), os.getegid())
    if (change or spec.groups) and os.geteuid() == 0:
        os.setgroups(spec.groups)
    if change:
        os.setgid(spec.gid)
        os.setuid(spec.uid)
    if not inside:
        _change_directory(spec.cwd)
    if spec.no_new_privs:
        system.no_new_privileges()


def _is_directory_entered(path: str) -> bool:
    """Change the directory before the user, as runc does: a user need not be able to enter that of the image."""
    try:
        os.chdir(path)
    except OSError:
        return False
    return True


def _change_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise RuntimeError(
            f'working directory "{path}": {reason}; embedded containers see the host\'s files, so it must exist there'
        ) from None


def _sleep() -> NoReturn:
    # Blocked before the report is closed: whoever reads there that it runs may send SIGTERM at once.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    os.closerange(_FIRST_OPEN, _LAST_OPEN)  # there is no exec to close the shim's descriptors, the report among them
    signal.sigwait((signal.SIGTERM, signal.SIGINT))
    os._exit(0)


def _explain(argv: list[str], error: OSError) -> str:
    program = argv[0] if argv else "pause"
    if error.errno == errno.ENOENT and "/" not in program:
        return f'exec: "{program}": executable file not found in $PATH'
    return f'exec: "{program}": {os.strerror(error.errno or 0).lower()}'
