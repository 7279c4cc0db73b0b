"""The CRI log file: `<time> <stdout|stderr> <P|F> <content>`, cut at a limit, reopened by path on request."""

import os
import select
import time

LIMIT = 16 * 1024
"""Content bytes of one line; longer ones are cut into P lines that end with an F line."""

PATIENCE_S = 1.0
"""How long the container's output waits for an attached client that has stopped reading."""


def stamp(now_ns: int) -> bytes:
    """RFC 3339 in UTC with all nine digits."""
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % nanos


class LogSplitter:
    """Turns the bytes of one stream into log lines. Holds at most one unfinished line, of at most LIMIT bytes."""

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
        """What was left without a newline when the stream ended."""
        rest, self._rest = self._rest, b""
        return self._format(rest, b"P", now) if rest else b""

    def _line(self, content: bytes, now: bytes) -> list[bytes]:
        content = content.removesuffix(b"\r")
        cuts = [content[at : at + self._limit] for at in range(0, len(content), self._limit)] or [b""]
        return [self._format(cut, b"P", now) for cut in cuts[:-1]] + [self._format(cuts[-1], b"F", now)]

    def _format(self, content: bytes, tag: bytes, now: bytes) -> bytes:
        return b"%s %s %s %s\n" % (now, self._stream, tag, content)


class LogFile:
    """The open log. A write that fails (disk full) loses that line: a container never waits for its log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self.reopen()

    def reopen(self) -> None:
        """Open the path anew, creating file and parents; on error the old descriptor stays in use. Raises OSError."""
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
    """One pipe of the container, or its terminal, into the log and to whoever is attached (`taps`)."""

    CHUNK = 64 * 1024

    def __init__(self, descriptor: int, stream: str, log: LogFile | None) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.taps: dict[int, int] = {}
        self._splitter = LogSplitter(stream)
        self._log = log

    def read(self) -> bool:
        """Move what is there; False at the end of the pipe."""
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
        """Take what the dead container left in the pipe, then close it. Never waits for a holder of the other end."""
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
    """Write to every tap; the numbers of those that are gone, or did not move for PATIENCE_S."""
    return [number for number, descriptor in taps.items() if not _sent(descriptor, data)]


def _sent(descriptor: int, data: bytes) -> bool:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            if not select.select([], [descriptor], [], PATIENCE_S)[1]:
                return False
        except OSError:
            return False
    return True
