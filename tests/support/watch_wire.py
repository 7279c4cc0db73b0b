"""A watch's connection without a socket, and a flusher without an event loop."""

from actors.apiserver.watch.begin import Opened
from actors.apiserver.watch.timers import Flushable, Flusher


class ByHand(Flusher):
    def __init__(self) -> None:
        super().__init__()
        self.due: list[Flushable] = []
        self.waits: list[float] = []
        """Seconds for which each of them was to wait."""

    def schedule(self, due: Flushable, wait: float = 0.0) -> None:
        self.due.append(due)
        self.waits.append(wait)

    def turn(self) -> None:
        """What one turn of the loop does."""
        due, self.due = self.due, []
        for each in due:
            each.flush()

    def settle(self) -> None:
        while self.due:
            self.turn()


class Wire:
    """Remembers what was written. A jammed one takes one more write, as a socket's buffer does, and says so."""

    def __init__(self, opened: Opened, chunked: bool = True, jammed: bool = False, head: bytes = b"") -> None:
        self.chunked = chunked
        self.watcher = opened.watcher
        self.writes: list[bytes] = []
        self.ended: bool | None = None
        """Whether the connection was said to be reusable."""
        self.dropped = False
        self.trusted = True
        self._jammed = jammed
        self._taken = 0
        opened.watcher.begin(self, opened.initial, head)

    def write(self, data: bytes) -> None:
        assert self.ended is None, "nothing is written after the end"
        self.writes.append(data)
        if self._jammed and not self.watcher.congested:
            self.watcher.pause()

    def end(self, reusable: bool) -> None:
        assert self.ended is None, "it ends once"
        self.ended = reusable

    def drop_soon(self) -> None:
        self.dropped = True

    def jam(self) -> None:
        self._jammed = True

    def relieve(self) -> None:
        self._jammed = False
        if self.watcher.congested:
            self.watcher.resume()

    def take(self) -> bytes:
        """The body since the last time, once all is flushed."""
        flusher = self.watcher.channel.flusher
        assert isinstance(flusher, ByHand)
        flusher.settle()
        fresh, self._taken = self.writes[self._taken :], len(self.writes)
        return b"".join(unchunk(data) for data in fresh) if self.chunked else b"".join(fresh)


def unchunk(data: bytes) -> bytes:
    """The inside of one chunk, its size checked."""
    size, _, rest = data.partition(b"\r\n")
    assert len(rest) == int(size, 16) + 2
    assert rest.endswith(b"\r\n")
    return rest[:-2]
