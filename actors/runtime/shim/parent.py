"""Shim: parent of one container's processes until they have all ended and the exit record is on disk.

It owns the container's log and its exit record. If the shim is killed with SIGKILL the exit code is lost, so the
container is killed with it; the runtime finds no record and reports ContainerStatusUnknown.
"""

import contextlib
import functools
import os
import select
import signal
import socket
import time
from collections.abc import Callable

from actors.runtime.shim import channel, child, isolation, system
from actors.runtime.shim.channel import RuntimeListener
from actors.runtime.shim.streams import Pump, Streams
from protocols.process.proc import boot_id

RETRY_RECORD_S = 1.0
"""Pause between attempts to write the exit record on a full disk; meanwhile the exit is retained in memory."""

RETRY_ENDS_MS = 50
"""Pause between attempts to report ends of commands to a runtime that does not read."""

KILLED = 128 + signal.SIGKILL
ENDING = frozenset(signal.valid_signals()) - {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGCHLD,
    signal.SIGCONT,
    signal.SIGURG,
    signal.SIGWINCH,
}
"""Signals that end a process which does not handle them."""


class Shim:
    """Parent of one container's processes.

    The runtime that started it is at the other end of `connection`; later ones connect to the socket file.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._channel: socket.socket | None = connection
        self._listener = RuntimeListener()
        self._wakeup, wake = socket.socketpair()
        self._wakeup.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._streams: Streams | None = None
        self._execs: dict[int, int] = {}
        self._ends: list[channel.Message] = []
        """Ends of commands, in no file, that the runtime has not been sent yet."""
        self._pid = 0
        self._mounts = 0
        """Descriptor of the container's mount namespace, where it identifies the container's processes."""
        self._status: int | None = None
        self._ended_by = 0
        """Signal that ended the first process, where the kernel would have dropped it."""
        self._started: channel.Message = {"kind": "started", "shim": os.getpid(), "pid": 0, "started_at": 0}
        self._exit: channel.Message = {}
        self._finished_at = 0

    def run(self) -> None:
        """Run from start to exit record. No process of the container exists before the runtime sends go."""
        self._listener.open()
        if not self._await_go():
            os.unlink(channel.SOCKET_FILE)
            return
        if self._start():
            self._serve()
            self._finish()
        self._record_exit()
        os.unlink(channel.SOCKET_FILE)
        channel.send(self._channel, self._exit)

    def _await_go(self) -> bool:
        """Wait for go. If the runtime dies before, nothing has started, and its successor may start the container."""
        assert self._channel is not None
        channel.send(self._channel, {"kind": "ready"})
        message, _ = channel.receive(self._channel)
        return message is not None and message.get("op") == "go"

    def _start(self) -> bool:
        """Start the container's first process.

        started.json is written first: a shim that dies afterwards leaves a lost container, not one that never started.
        """
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        try:
            self._record_started(pid=0, started_at=0, ticks=0, boot=boot_id())
            self._spec = child.parse(channel.read_record(channel.SPEC_FILE))
            pid, error = self._spawn_main()
        except OSError as failure:
            pid, error = 0, f"{failure.filename or 'shim'}: {os.strerror(failure.errno or 0).lower()}"
        except RuntimeError as failure:
            pid, error = 0, str(failure)
        now = time.time_ns()
        if error:
            self._exit = _exit(child.START_ERROR, 0, now) | {"message": error}
            return False
        self._pid = pid
        self._mounts = system.hold_mount_namespace(pid) if self._spec.isolation.pid_of else 0
        with contextlib.suppress(OSError):  # on a full disk the first note stays, and the open socket says the rest
            self._record_started(pid=pid, started_at=now, ticks=system.start_ticks(pid))
        channel.send(self._channel, self._started)
        return True

    def _record_started(self, **fields: int | str) -> None:
        self._started |= fields
        channel.write_record(channel.STARTED_FILE, self._started, durable=False)

    def _spawn_main(self) -> tuple[int, str]:
        spec = self._spec
        streams = self._streams = Streams(spec)
        try:
            isolation.select_pids(spec.isolation)
            return child.spawn(spec, spec.argv, child.Stdio(*streams.child, terminal=spec.tty))
        finally:
            streams.close_child_ends()

    def _serve(self) -> None:
        self._watch(self._wakeup.fileno(), self._on_children)
        self._watch(self._listener.fileno(), self._on_connection)
        assert self._streams is not None
        for pump in self._streams.pumps:
            self._watch(pump.descriptor, functools.partial(self._on_output, pump))
        self._watch_channel()
        self._on_children()
        while self._status is None:
            self._send_ends()
            for descriptor, _ in self._poll.poll(RETRY_ENDS_MS if self._ends else None):
                if handler := self._handlers.get(descriptor):
                    handler()

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLIN)

    def _unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _on_children(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup.recv(4096)
        system.reap(self._on_ended)

    def _on_ended(self, pid: int, status: int) -> None:
        if pid == self._pid:
            self._status = status
            self._finished_at = time.time_ns()
        elif (number := self._execs.pop(pid, None)) is not None:
            self._ends.append({"kind": "exec_exit", "id": number, "code": _code(status)})
            self._send_ends()

    def _send_ends(self) -> None:
        while self._ends and channel.send(self._channel, self._ends[0]):
            del self._ends[0]

    def _on_output(self, pump: Pump) -> None:
        if not pump.read():
            self._unwatch(pump.descriptor)

    def _on_connection(self) -> None:
        """Replace the connection to the previous runtime."""
        connection = self._listener.runtime()
        if connection is None:
            return
        if self._channel is not None:
            self._drop_channel()
        self._channel = connection
        self._watch_channel()
        channel.send(connection, self._started)

    def _watch_channel(self) -> None:
        if self._channel is not None:
            self._watch(self._channel.fileno(), self._on_request)

    def _drop_channel(self) -> None:
        """End what clients of the lost runtime had open: attached streams and commands."""
        assert self._channel is not None
        if self._streams is not None:
            self._streams.detach_all()
        for pid in self._execs:
            system.kill_session(pid)
        self._execs, self._ends = {}, []  # the next runtime has commands of the same numbers
        self._unwatch(self._channel.fileno())
        self._channel.close()
        self._channel = None

    def _on_request(self) -> None:
        assert self._channel is not None
        message, descriptors = channel.receive(self._channel)
        if message is None:
            self._drop_channel()
        else:
            self._handle(message, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _handle(self, message: channel.Message, descriptors: list[int]) -> None:
        match message:
            case {"op": "signal", "signal": int(number)}:
                self._signal(number)
            case {"op": "kill"}:
                system.kill(self._pid, signal.SIGKILL)
            case {"op": "reopen", "id": int(number)}:
                channel.send(self._channel, {"kind": "reply", "id": number, "error": self._reopen()})
            case {"op": "exec", "id": int(number), "argv": list(argv)} if len(descriptors) == 3:
                self._exec(number, argv, _stdio(descriptors, message))
            case {"op": "kill_exec", "id": int(number)}:
                self._kill_exec(number)
            case {"op": "attach", "id": int(number)} if len(descriptors) == 2:
                self._attach(number, descriptors)
            case {"op": "detach", "id": int(number)} if self._streams is not None:
                self._streams.detach(number)
            case {"op": "cgroups", "groups": list(groups), "oom": str(oom)}:
                self._spec = self._spec._replace(cgroups=tuple(groups), oom=oom)
            case {"op": "close_stdin"} if self._streams is not None:
                self._streams.close_input()

    def _signal(self, number: int) -> None:
        """Send a signal to the first process.

        The kernel drops what PID 1 of a namespace does not handle. A program of an image has to live with that, as
        everywhere; one on the host's files ends by the signal as it would in a shell.
        """
        isolated = self._spec.isolation
        dropped = isolated.processes and isolated.root is None and number in ENDING
        if dropped and not system.handles(self._pid, number):
            self._ended_by, number = number, signal.SIGKILL
        system.kill(self._pid, number)

    def _reopen(self) -> str:
        try:
            if self._streams is not None and self._streams.log is not None:
                self._streams.log.reopen()
        except OSError as error:
            return f"log {self._spec.log}: {os.strerror(error.errno or 0).lower()}"
        return ""

    def _attach(self, number: int, descriptors: list[int]) -> None:
        """Attach a client; the reply carries the container's stdin or terminal, if it has one."""
        assert self._streams is not None
        self._streams.attach(number, descriptors)
        given = (self._streams.input,) if self._streams.input >= 0 else ()
        channel.send(self._channel, {"kind": "reply", "id": number, "error": ""}, given)

    def _exec(self, number: int, argv: list[str], stdio: child.Stdio) -> None:
        try:
            pid, error = child.spawn(self._spec, argv, stdio, beside=self._pid)
        except OSError as failure:
            pid, error = 0, os.strerror(failure.errno or 0).lower()
        if pid:
            self._execs[pid] = number
        channel.send(self._channel, {"kind": "reply", "id": number, "error": error})

    def _kill_exec(self, number: int) -> None:
        for pid in [pid for pid, wanted in self._execs.items() if wanted == number]:
            system.kill_session(pid)

    def _finish(self) -> None:
        """Kill the descendants of the first process, which has ended, and write the last log lines."""
        system.kill_descendants(self._on_ended, self._mounts)
        if self._mounts:
            os.close(self._mounts)
        assert self._status is not None
        assert self._streams is not None
        self._streams.finish()
        if self._ended_by and _code(self._status) == KILLED:
            self._status = self._ended_by
        number = os.WTERMSIG(self._status) if os.WIFSIGNALED(self._status) else 0
        starved = _code(self._status) == KILLED and system.oom_kills(self._spec.oom) > 0
        system.remove_cgroups(self._spec.cgroups)
        self._exit = _exit(_code(self._status), number, self._finished_at) | {"starved": starved}

    def _record_exit(self) -> None:
        """Write exit.json. While the disk is full, report the exit from memory to every runtime that connects."""
        while True:
            try:
                return channel.write_record(channel.EXIT_FILE, self._exit, durable=True)
            except FileNotFoundError:
                return None  # the container was removed meanwhile: nothing reads it any more
            except OSError:
                channel.send(self._channel, self._exit)
                select.select([self._listener], [], [], RETRY_RECORD_S)
                self._on_connection()


def _exit(code: int, number: int, finished_at: int) -> channel.Message:
    return {"kind": "exit", "code": code, "signal": number, "finished_at": finished_at, "message": ""}


def _code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _stdio(descriptors: list[int], message: channel.Message) -> child.Stdio:
    stdin, stdout, stderr = descriptors
    return child.Stdio(stdin, stdout, stderr, terminal=message.get("terminal") is True)
