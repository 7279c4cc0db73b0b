"""Fuzz the CEL engine: `python -m tests.fuzz.run SECONDS SEED JOBS`, also `make fuzz SECONDS=60 SEED=0 JOBS=2`.

Each job is a child that compiles and evaluates texts, and VARIANTS of the tree of each text; both count as
expressions. It writes down what it tries, so that the parent can name what killed or stopped it. Each case that is
found is printed as a line for the corpus, which a unit test replays; the exit code is then 1.
"""

import contextlib
import functools
import gc
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
from tests.fuzz.targets import tried, tried_variant
from tests.fuzz.variants import Variants

MEMORY = 3 << 30
"""Bytes of address space of the child."""
CPU_SECONDS = 2.0
"""Most that one text may take for all its evaluations."""
STUCK_SECONDS = 60.0
"""Wall time after which the child is killed."""
_HEAD = struct.Struct("<QQQQQQd")
"""Numbers of the board, length of the note, and when it was written."""
PAGE = 1 << 16
RESTART = 20_000
"""Texts after which a fresh child goes on: what the native library keeps does not add up."""
VARIANTS = 100
"""Variants of each text that passes its check."""


class Board:
    """Memory that the child shares with its parent."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, PAGE)
        self.texts = self.accepted = self.variants = self.evaluations = 0
        self.number = 0
        """The variant in work; 0 = the text itself."""
        self._size = 0

    def write(self, note: str) -> None:
        data = note.encode()[: PAGE - _HEAD.size]
        self._map[_HEAD.size : _HEAD.size + len(data)] = data
        self._size, self.number = len(data), 0
        self.count()

    def count(self) -> None:
        numbers = (self.texts, self.accepted, self.variants, self.evaluations, self.number, self._size)
        self._map[: _HEAD.size] = _HEAD.pack(*numbers, time.monotonic())  # pack_into would show zeros for a moment

    def read(self) -> tuple[str, float]:
        head = _HEAD.unpack_from(self._map)
        self.texts, self.accepted, self.variants, self.evaluations, self.number, self._size = head[:-1]
        return self._map[_HEAD.size : _HEAD.size + self._size].decode(errors="replace"), head[-1]


def cases(seed: int) -> Iterator[tuple[str, str]]:
    """Yield kinds and expressions without end, the same for each seed."""
    chance = random.Random(seed)
    kinds = list(MAKERS)
    while True:
        kind = chance.choice(kinds)
        yield kind, MAKERS[kind](chance, chance.choice((2, 3, 3, 4, 5)))


class _Child:
    """One process of a job, from its fork on."""

    def __init__(self, board: Board, end: float) -> None:
        self._board, self._end = board, end
        self._others: dict[str, tuple[str, bytes]] = {}
        """The text that passed before, by its kind."""

    def run(self, seed: int) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        gc.freeze()
        last = self._board.texts + RESTART
        for kind, text in cases(seed):
            if time.monotonic() > self._end or self._board.texts == last:
                break
            if (found := self._case(kind, text)) is not None:
                print(json.dumps(found), flush=True)
                self._board.write("found")
                os._exit(1)
        self._board.write("done")
        os._exit(0)

    def _case(self, kind: str, text: str) -> list[object] | None:
        """Try a text and its variants; return the line of what is found."""
        board = self._board
        began = time.process_time()
        fault, count, serialized = tried(kind, text, functools.partial(self._note, kind, text))
        spent = time.process_time() - began
        board.texts += 1
        board.accepted += bool(count)
        board.evaluations += count
        if fault or spent > CPU_SECONDS:
            return [kind, text, fault or f"takes {spent:.1f} s"]
        if not serialized:
            return None
        other, before = self._others.get(kind, (text, serialized))
        self._others[kind] = text, serialized
        board.write(json.dumps(["variant", kind, text, other]))
        variants = Variants(serialized, before)
        for board.number in range(1, VARIANTS + 1):
            board.count()
            fault, count, _ = tried_variant(kind, variants, board.number)
            board.variants += 1
            board.evaluations += count
            if fault:
                return [kind, text, other, board.number, fault]
        return None

    def _note(self, kind: str, text: str, phase: str) -> None:
        self._board.write(json.dumps([phase, kind, text]))


class _Job:
    """One child after the other."""

    def __init__(self, seed: int, end: float) -> None:
        self.board, self._seed, self._end = Board(), seed, end
        self.found = 0
        self._pid = 0
        self._fork()

    def _fork(self) -> None:
        self.board.write("begin")
        self._pid = os.fork()
        if self._pid == 0:
            with contextlib.suppress(BaseException):
                _Child(self.board, self._end).run(self._seed)
            os._exit(2)
        self._seed += 1

    def poll(self) -> bool:
        """Look after the child; return False once the job is over."""
        done, status = os.waitpid(self._pid, os.WNOHANG)
        note, at = self.board.read()
        if not done and time.monotonic() - at < STUCK_SECONDS:
            return True
        if not done:
            os.kill(self._pid, signal.SIGKILL)
            _, status = os.waitpid(self._pid, 0)
        if status != 0:
            self.found += 1
            if note != "found":
                print(json.dumps(_named(note, self.board.number, status)), flush=True)
        if time.monotonic() >= self._end:
            return False
        self._fork()
        return True


def _named(note: str, number: int, status: int) -> list[object]:
    """Return the line of what ended a child."""
    if not note.startswith("["):
        return ["", note, f"ends the process with status {status}"]
    phase, *case = json.loads(note)
    return [*case, *([number] if number else []), f"{phase} ends the process with status {status}"]


def main(seconds: float, seed: int, count: int = 1) -> int:
    began = time.monotonic()
    jobs = [_Job((seed * 1000 + number) * 1_000_003, began + seconds) for number in range(count)]
    running = jobs
    while running:
        time.sleep(0.05)
        running = [job for job in running if job.poll()]
    took = time.monotonic() - began
    found = sum(job.found for job in jobs)
    texts, variants = (sum(getattr(job.board, name) for job in jobs) for name in ("texts", "variants"))
    accepted, evaluations = (sum(getattr(job.board, name) for job in jobs) for name in ("accepted", "evaluations"))
    print(
        f"fuzz: seconds={took:.0f} seed={seed} jobs={count} expressions={texts + variants} texts={texts} "
        f"accepted={accepted} variants={variants} evaluations={evaluations} found={found}"
    )
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
