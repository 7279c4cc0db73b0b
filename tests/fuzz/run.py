"""Fuzz the CEL engine for some seconds: `python -m tests.fuzz.run SECONDS SEED`, also `make fuzz SECONDS=60 SEED=0`.

A child compiles and evaluates; it writes down what it tries, so that the parent can name what killed or stopped it.
Each case that is found is printed as a line for the corpus, which a unit test replays; the exit code is then 1.
"""

import contextlib
import functools
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
from collections.abc import Iterator

from tests.fuzz.grammar import MAKERS
from tests.fuzz.targets import tried

MEMORY = 3 << 30
"""Bytes of address space of the child."""
CPU_SECONDS = 2.0
"""Most that one expression may take for all its evaluations."""
STUCK_SECONDS = 60.0
"""Wall time after which the child is killed."""
_HEAD = struct.Struct("<QQQQd")
"""Expressions, accepted, evaluations, length of the note, and when it was written."""
PAGE = 1 << 16
RESTART = 20_000
"""Expressions after which a fresh child goes on: what the native library keeps does not add up."""


class Board:
    """Memory that the child shares with its parent."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, PAGE)
        self.expressions = self.accepted = self.evaluations = 0

    def write(self, note: str) -> None:
        data = note.encode()[: PAGE - _HEAD.size]
        self._map[_HEAD.size : _HEAD.size + len(data)] = data
        head = (self.expressions, self.accepted, self.evaluations, len(data), time.monotonic())
        self._map[: _HEAD.size] = _HEAD.pack(*head)

    def read(self) -> tuple[str, float]:
        self.expressions, self.accepted, self.evaluations, size, at = _HEAD.unpack(self._map[: _HEAD.size])
        return self._map[_HEAD.size : _HEAD.size + size].decode(errors="replace"), at


def cases(seed: int) -> Iterator[tuple[str, str]]:
    """Yield kinds and expressions without end, the same for each seed."""
    chance = random.Random(seed)
    kinds = list(MAKERS)
    while True:
        kind = chance.choice(kinds)
        yield kind, MAKERS[kind](chance, chance.choice((2, 3, 3, 4, 5)))


def _child(board: Board, seed: int, end: float) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    last = board.expressions + RESTART
    for kind, text in cases(seed):
        if time.monotonic() > end or board.expressions == last:
            break
        began = time.process_time()
        fault, count = tried(kind, text, functools.partial(_note, board, kind, text))
        spent = time.process_time() - began
        if not fault and spent > CPU_SECONDS:
            fault = f"takes {spent:.1f} s"
        board.expressions += 1
        board.accepted += bool(count)
        board.evaluations += count
        if fault:
            print(json.dumps([kind, text, fault]), flush=True)
            board.write("found")
            os._exit(1)
    board.write("done")
    os._exit(0)


def _note(board: Board, kind: str, text: str, phase: str) -> None:
    board.write(json.dumps([phase, kind, text]))


def _run(board: Board, seed: int, end: float) -> bool:
    """Run one child; return False if it found a case."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _child(board, seed, end)
        os._exit(2)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        note, at = board.read()
        if done:
            break
        if at and time.monotonic() - at > STUCK_SECONDS:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            break
        time.sleep(0.05)
    if status == 0 or note == "found":
        return status == 0
    phase, kind, text = json.loads(note) if note.startswith("[") else ("", "", note)
    print(json.dumps([kind, text, f"{phase} ends the process with status {status}"]), flush=True)
    return False


def main(seconds: float, seed: int) -> int:
    board, found, round_ = Board(), 0, 0
    began = time.monotonic()
    board.write("begin")
    while time.monotonic() < began + seconds:
        found += not _run(board, seed * 1_000_003 + round_, began + seconds)
        round_ += 1
    took = time.monotonic() - began
    print(
        f"fuzz: seconds={took:.0f} seed={seed} expressions={board.expressions} accepted={board.accepted} "
        f"evaluations={board.evaluations} found={found}"
    )
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2])))
