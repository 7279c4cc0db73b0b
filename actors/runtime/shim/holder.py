"""Holder of a pod's namespaces: PID 1 of a PID namespace that containers share, as other runtimes' pause process.

The launcher forks it. It sends the runtime its pid, waits until that is on disk, then sleeps until it is killed; a
runtime that dies before leaves none behind. Orphans of the pod's containers become its children, and are reaped.
"""

import os
import signal
import socket
from typing import NoReturn

from actors.runtime.shim import channel, system
from protocols.process import linux

CONNECTION = 3
OOM_SCORE = -998
"""As kubelet gives to pause processes."""


def start(request: channel.Message, connection: int) -> int:
    """Fork a holder with `connection` to the runtime and return its pid. Raises OSError."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        system.new_namespaces(["pid"])
        try:
            return _forked(request, connection)
        finally:
            _return_to(own)
    finally:
        os.close(own)


def _forked(request: channel.Message, connection: int) -> int:
    if pid := os.fork():
        return pid
    try:
        _hold(request, connection)
    finally:
        os._exit(1)


def _return_to(namespace: int) -> None:
    """End the launcher if its next child would be in the pod's namespace; the runtime starts another one."""
    try:
        system.enter_namespace(namespace)
    except OSError:
        os._exit(1)


def _hold(request: channel.Message, connection: int) -> NoReturn:
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    os.dup2(connection, CONNECTION, inheritable=False)
    os.closerange(CONNECTION + 1, 4096)
    runtime = socket.socket(fileno=CONNECTION)
    try:
        linux.set_name("pause")
        system.adjust_oom_score(OOM_SCORE)
        if request.get("ipc"):
            system.new_namespaces(["ipc"])
        for path, value in dict(request.get("sysctls") or {}).items():
            _set(path, value)
        pid = int(os.readlink("/proc/self"))  # of the host: this /proc is the host's
        holding = {"kind": "holding", "pid": pid, "ticks": system.start_ticks(pid)}
        _leave_files()
        channel.send(runtime, holding)
        message, _ = channel.receive(runtime)
        if message is None or message.get("op") != "go":
            os._exit(1)
    except (OSError, RuntimeError) as error:
        channel.send(runtime, {"kind": "holding", "pid": 0, "error": str(error)})
        os._exit(1)
    runtime.close()
    while True:
        signal.pause()


def _leave_files() -> None:
    """Take an empty root, since containers with CAP_SYS_PTRACE reach it as /proc/1/root. Raises OSError."""
    system.new_namespaces(["mnt"])
    linux.mount("", "/", linux.RECURSIVE | linux.SLAVE)
    linux.mount("tmpfs", "/proc", linux.RDONLY, "tmpfs", "size=0k")
    os.chdir("/proc")
    system.pivot_root_here()
    os.chdir("/")


def _set(path: str, value: str) -> None:
    try:
        with open(f"/proc/sys/{path}", "w") as file:
            file.write(value)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise RuntimeError(f'sysctl "{path.replace("/", ".")}" = "{value}": {why}') from None
