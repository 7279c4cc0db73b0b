"""The process that evaluates: forked from the actor with the engine loaded, and locked up before its first question.

It reads batches of questions from a socket and writes one answer each. The expression it works on stands in a page that
it shares with the actor, so that the actor knows what it died of.
"""

import gc
import mmap
import os
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Callable
from typing import NoReturn

import msgspec

from protocols.cel.worker import sandbox
from protocols.cel.worker.local import Engine
from protocols.cel.worker.messages import Batch, EvaluationEnded, WorkerFault, decode_question, encode

PAGE = 16 * 1024
TEXT = 10 * 1024
"""Bytes of an expression that identify it."""
HEAD = struct.Struct("<I")
CPU, CPU_AT = struct.Struct("<d"), PAGE - 8
"""Place in the page of the evaluator's CPU time before the question in work."""
ANSWER = 64 << 20
"""Bytes of the largest answer; results of upstream's budget are smaller."""
OUT_OF_MEMORY = 77
_batches = msgspec.msgpack.Decoder(Batch)


class Evaluator:
    """The actor's end of an evaluator: its pid, its socket, and the page it shares."""

    def __init__(self, load: Callable[[], None] | None = None) -> None:
        """Fork. Raises OSError. `load` is called in the new process, by programs that have not loaded the engine."""
        self._page = mmap.mmap(-1, PAGE)
        self.socket, theirs = socket.socketpair()
        parent = os.getpid()
        with theirs, warnings.catch_warnings():
            # From 3.12 on Python warns of threads. The child uses nothing that another thread could have locked.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                self.pid = os.fork()
            except OSError:
                self.close()
                raise
            if self.pid == 0:
                _main(theirs, self._page, parent, load)
        self.socket.setblocking(False)

    @property
    def expression(self) -> str:
        """The expression in work, empty if none."""
        (length,) = HEAD.unpack_from(self._page)
        return self._page[HEAD.size : HEAD.size + min(length, TEXT)].decode(errors="replace")

    @property
    def began_cpu_s(self) -> float:
        return float(CPU.unpack_from(self._page, CPU_AT)[0])

    def close(self) -> None:
        self.socket.close()
        self._page.close()


def key_of(source: str) -> bytes:
    """Return the bytes by which an expression stands in the shared page."""
    return source.encode(errors="replace")[:TEXT]


def _main(
    sock: socket.socket, page: mmap.mmap, parent: int, load: Callable[[], None] | None
) -> NoReturn:  # fmt: skip
    code = 1
    try:
        gc.enable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        _close_others(sock.fileno())
        if load is not None:
            load()
        sandbox.enter(parent)
        code = _serve(sock, page)
    except BaseException as error:
        print(f"evaluator: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _close_others(kept: int) -> None:
    """Close all that came with the fork, but for the log."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


class _Bans:
    """Marks the expression in work; rejects expressions in quarantine."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page
        self.banned: dict[str, tuple[str, float]] = {}

    def begin(self, source: str) -> None:
        """Mark the expression that is evaluated next. Raises EvaluationEnded for one in quarantine."""
        key = key_of(source)
        if self.banned and (ban := self.banned.get(key.decode(errors="replace"))) is not None:
            raise EvaluationEnded(*ban)
        self._page[HEAD.size : HEAD.size + len(key)] = key
        HEAD.pack_into(self._page, 0, len(key))

    def start(self) -> None:
        CPU.pack_into(self._page, CPU_AT, time.process_time())

    def end(self) -> None:
        HEAD.pack_into(self._page, 0, 0)


def _serve(sock: socket.socket, page: mmap.mmap) -> int:
    bans = _Bans(page)
    engine = Engine(bans.begin)
    while (raw := _read(sock)) is not None:
        batch = _batches.decode(raw)
        bans.banned = batch.banned
        for question in batch.questions:
            bans.start()
            sandbox.time_limits(on=True)
            try:
                answer = encode(engine.answer(decode_question(question)))
            except MemoryError:
                return OUT_OF_MEMORY
            except (msgspec.MsgspecError, OverflowError, RecursionError, ValueError, TypeError) as error:
                answer = encode(WorkerFault("evaluation", f"the result cannot be sent: {error}"))
            if len(answer) > ANSWER:
                answer = encode(WorkerFault("evaluation", "the result is too large"))
            sandbox.time_limits(on=False)
            bans.end()
            sock.sendall(HEAD.pack(len(answer)) + answer)
    return 0


def _read(sock: socket.socket) -> bytes | None:
    head = _exactly(sock, HEAD.size)
    return None if head is None else _exactly(sock, HEAD.unpack(head)[0])


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        part = sock.recv(min(count - len(received), 1 << 20))
        if not part:
            return None
        received += part
    return bytes(received)
