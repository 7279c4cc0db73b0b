"""Many watches from one process: counts what arrives and reads next to nothing of it.

Driven by lines on stdin, answers one JSON line each: `stats`, `stamps`, `drop` (close all that are open). Ends when
stdin does. It shares its machine with the servers it measures, so it is as light as a client in Python can be: sockets
and TLS by hand, no tasks.
"""

import contextlib
import gc
import json
import os
import resource
import select
import sys
import time
from collections import deque
from typing import Any

import msgspec

from tests.bench.watch_line import Context, Line, Options

AGAIN_SECONDS = 0.05
STORM = 1000
"""Handshakes under way after `drop`. With 10,000 this process ends few within the 10 s that a server gives a client,
and begins them again and again."""
STDIN = 0


class Tally(msgspec.Struct):
    events: int = 0
    size: int = 0
    opened: int = 0
    """Also those that came back."""
    lost: int = 0
    """Of those that were open."""
    errors: int = 0
    last_open: float = 0.0
    """By the monotonic clock, which all processes share."""
    stamps: list[tuple[int, float]] = []


class Client:
    def __init__(self, options: Options) -> None:
        self.tally = Tally()
        self._context = Context(options)
        self._together = options.together
        self._poll = select.epoll()
        self._lines: dict[int, Line] = {}
        self._under_way: set[int] = set()
        self._waiting = deque((path, options.version) for path in options.paths * options.times)
        self._later: deque[tuple[float, str, int]] = deque()
        self._asked = b""

    def open_all(self) -> None:
        while self._waiting or self._later or self._under_way:
            self._turn()

    def serve(self) -> None:
        """Until stdin ends."""
        self._poll.register(STDIN, select.EPOLLIN)
        while self._turn():
            pass

    def _turn(self) -> bool:
        self._begin()
        for number, _ in self._poll.poll(self._pause()):
            if number != STDIN:
                self._read(self._lines[number])
            elif not self._answer():
                return False
        return True

    def _pause(self) -> float | None:
        return max(0.0, self._later[0][0] - time.monotonic()) if self._later else None

    def _begin(self) -> None:
        while self._later and self._later[0][0] <= time.monotonic():
            self._waiting.append(self._later.popleft()[1:])
        while self._waiting and len(self._under_way) < self._together:
            line = Line(self._context, *self._waiting.popleft())
            self._lines[line.number] = line
            self._under_way.add(line.number)
            self._poll.register(line.number, select.EPOLLOUT)

    def _read(self, line: Line) -> None:
        """What a line has for us; its first bytes open it."""
        try:
            data = line.proceed()
        except OSError:
            self._lost(line)
            return
        if data is None:
            self._poll.modify(line.number, line.wants)
            return
        if not line.open:
            self._opened(line, data)
        tally = self.tally
        tally.events += line.count(data)
        tally.size += len(data)
        if self._context.options.stamps:
            now = time.monotonic()
            tally.stamps += [(number, now) for number in line.stamps(data)]

    def _opened(self, line: Line, data: bytes) -> None:
        line.open = True
        self._under_way.discard(line.number)
        self.tally.opened += 1
        self.tally.last_open = time.monotonic()
        self.tally.errors += not data.startswith(b"HTTP/1.1 200") or b'"type":"ERROR"' in data

    def _lost(self, line: Line) -> None:
        del self._lines[line.number]
        with contextlib.suppress(OSError):  # TLS may have closed it already
            self._poll.unregister(line.number)
        self._under_way.discard(line.number)
        line.close()
        if not line.open:
            self._later.append((time.monotonic() + AGAIN_SECONDS, line.path, line.version))
            return
        self.tally.lost += 1
        if self._context.options.resume:
            self._waiting.append((line.path, line.version))

    def _drop(self) -> None:
        """All come back at once, as far as one process can."""
        self._together = STORM
        for line in [line for line in self._lines.values() if line.open]:
            self._lost(line)

    def _answer(self) -> bool:
        data = os.read(STDIN, 4096)
        *words, self._asked = (self._asked + data).split(b"\n")
        for word in words:
            print(json.dumps(self.told(word.decode())), flush=True)
        return bool(data)

    def told(self, word: str) -> Any:
        tally = self.tally
        if word == "stamps":
            return tally.stamps
        if word == "drop":
            self._drop()
        names = ("events", "size", "opened", "lost", "errors", "last_open")
        return {name: getattr(tally, name) for name in names} | {"cpu_s": time.process_time()}


def main() -> None:
    gc.disable()  # thousands of lines stay; looking through them again and again would be paid by what is measured
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    client = Client(msgspec.json.decode(sys.argv[1], type=Options))
    client.open_all()
    print(json.dumps(client.told("stats")), flush=True)
    client.serve()


if __name__ == "__main__":
    main()
