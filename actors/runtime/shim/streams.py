"""Standard streams of a container's first process: pipes or a terminal, the CRI log, attached clients.

A line of the log is `<time> <stdout|stderr> <P|F> <content>`. The log is opened again by its path on request.
"""

import os
import select
import time

from actors.runtime.shim.child import Spec

LIMIT = 16 * 1024
"""Content bytes of one log line; longer output is split into partial (P) lines and a final (F) one."""

CLIENT_TIMEOUT_S = 1.0
"""Longest time that the container's output waits for an attached client that has stopped reading."""


def stamp(now_ns: int) -> bytes:
    """Format as RFC 3339 in UTC with all nine digits."""
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % nanos


class LogSplitter:
    """Split the bytes of one stream into log lines; buffers one unfinished line of at most LIMIT bytes."""

    def __init__(self, stream: str, limit: int = LIMIT) -> None:
        self._stream = stream.encode()
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes, now: bytes) -> bytes:
        *complete, rest = (self._rest + data).split(b"\n")
        lines = [line for content in complete for line in self._line(content, now)]
        while len(rest) > self._limit:
            lines.append(self._format(rest[: self._limit], b"P", now))
            rest = rest[self._limit :]
        self._rest = rest
        return b"".join(lines)

    def end(self, now: bytes) -> bytes:
        """Return the unfinished line at the end of the stream, as a partial one."""
        rest, self._rest = self._rest, b""
        return self._format(rest, b"P", now) if rest else b""

    def _line(self, content: bytes, now: bytes) -> list[bytes]:
        content = content.removesuffix(b"\r")
        cuts = [content[at : at + self._limit] for at in range(0, len(content), self._limit)] or [b""]
        return [self._format(cut, b"P", now) for cut in cuts[:-1]] + [self._format(cuts[-1], b"F", now)]

    def _format(self, content: bytes, tag: bytes, now: bytes) -> bytes:
        return b"%s %s %s %s\n" % (now, self._stream, tag, content)


class ContainerLogFile:
    """Open log file. A failed write (disk full) loses the line: a container never waits for its log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self.reopen()

    def reopen(self) -> None:
        """Open the path again, creating file and parents. On OSError the old descriptor stays in use."""
        os.makedirs(os.path.dirname(self._path), mode=0o755, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe nobody reads is an error
        fresh = os.open(self._path, flags | os.O_NOFOLLOW, 0o640)  # a link would let its maker write to any file
        old, self._descriptor = self._descriptor, fresh
        if old >= 0:
            os.close(old)

    def write(self, lines: bytes) -> None:
        view = memoryview(lines)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return


class Pump:
    """Copy one pipe of the container, or its terminal, to the log and to attached clients (`taps`)."""

    CHUNK = 64 * 1024

    def __init__(self, descriptor: int, stream: str, log: ContainerLogFile | None) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.taps: dict[int, int] = {}
        self._splitter = LogSplitter(stream)
        self._log = log

    def read(self) -> bool:
        """Copy one chunk; False at the end of the pipe."""
        try:
            data = os.read(self.descriptor, self.CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # a terminal nobody has open any more
            return False
        if data:
            self._take(data)
        return bool(data)

    def untap(self, number: int) -> None:
        if (descriptor := self.taps.pop(number, None)) is not None:
            os.close(descriptor)

    def finish(self) -> None:
        """Copy what the ended container left in the pipe, then close it; never wait for other holders of the pipe."""
        try:
            while data := os.read(self.descriptor, self.CHUNK):
                self._take(data)
        except OSError:
            pass
        if self._log is not None:
            self._log.write(self._splitter.end(stamp(time.time_ns())))
        os.close(self.descriptor)

    def _take(self, data: bytes) -> None:
        if self._log is not None:
            self._log.write(self._splitter.feed(data, stamp(time.time_ns())))
        for number in send_copy(self.taps, data) if self.taps else ():
            self.untap(number)


def send_copy(taps: dict[int, int], data: bytes) -> list[int]:
    """Write to every tap; return the numbers of those that are gone or did not read for CLIENT_TIMEOUT_S."""
    return [number for number, descriptor in taps.items() if not _sent(descriptor, data)]


def _sent(descriptor: int, data: bytes) -> bool:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            if not select.select([], [descriptor], [], CLIENT_TIMEOUT_S)[1]:
                return False
        except OSError:
            return False
    return True


class Streams:
    """Pipes or terminal of the container; the shim holds its ends for as long as the container runs."""

    def __init__(self, spec: Spec) -> None:
        self.log = ContainerLogFile(spec.log) if spec.log else None
        self.pumps: list[Pump] = []
        self.input = -1
        """Write end of the container's stdin, or its terminal; -1 when it has neither."""
        self._terminal = spec.tty
        self._ends: list[int] = []
        self.child = self._open_terminal() if spec.tty else self._open_pipes(spec)
        """Stdin, stdout and stderr of the child."""

    def close_child_ends(self) -> None:
        """Close the child's ends, which it has inherited."""
        for descriptor in set(self._ends):
            os.close(descriptor)
        self._ends = []

    def close_input(self) -> None:
        """Close the container's stdin; a terminal stays open."""
        if self.input >= 0 and not self._terminal:
            os.close(self.input)
            self.input = -1

    def attach(self, number: int, descriptors: list[int]) -> None:
        """Copy later output to these descriptors too, until the client stops reading."""
        for pump, descriptor in zip(self.pumps, descriptors, strict=False):
            os.set_blocking(descriptor, False)
            pump.taps[number] = os.dup(descriptor)

    def detach(self, number: int) -> None:
        for pump in self.pumps:
            pump.untap(number)

    def detach_all(self) -> None:
        for pump in self.pumps:
            for number in list(pump.taps):
                pump.untap(number)

    def finish(self) -> None:
        for pump in self.pumps:
            pump.finish()
        self.detach_all()
        self.close_input()

    def _open_terminal(self) -> tuple[int, int, int]:
        """Open one terminal for all three streams, also for a container without a log."""
        ours, theirs = os.openpty()
        self.input = ours
        self.pumps = [Pump(ours, "stdout", self.log)]
        self._ends = [theirs]
        return theirs, theirs, theirs

    def _open_pipes(self, spec: Spec) -> tuple[int, int, int]:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._ends = [null]
        theirs = null
        if spec.stdin:
            theirs, self.input = os.pipe()
            self._ends.append(theirs)
        if self.log is None and not spec.stdin:
            return theirs, null, null
        outputs = [os.pipe() for _ in range(2)]
        names = ("stdout", "stderr")
        self.pumps = [Pump(ends[0], name, self.log) for ends, name in zip(outputs, names, strict=True)]
        self._ends += [writable for _, writable in outputs]
        return theirs, outputs[0][1], outputs[1][1]
