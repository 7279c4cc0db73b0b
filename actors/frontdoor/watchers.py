"""Open watches: each has a bounded queue of its own, so the slowest client costs the others nothing."""

import asyncio
from collections import Counter, deque

from actors.frontdoor.errors import Stopping, TooManyWatchers, WatcherTooSlow
from actors.frontdoor.types import Entry
from protocols.errors import NodeplaneError

BATCH = 50


class Watcher:
    """One open watch. `ended` is why it gets no more, once its queue is empty."""

    def __init__(self, limit: int) -> None:
        self.ended: NodeplaneError | None = None
        self._limit = limit
        self._queue: deque[Entry] = deque()
        self._wake = asyncio.Event()
        self._over = asyncio.Event()

    def __len__(self) -> int:
        """Events it is behind."""
        return len(self._queue)

    def push(self, entry: Entry) -> None:
        if self.ended is not None:
            return
        if len(self._queue) >= self._limit:
            self.end(WatcherTooSlow(f"the client is {self._limit} events behind; watch again"))
            return
        self._queue.append(entry)

    def wake(self) -> None:
        self._wake.set()

    def end(self, why: NodeplaneError) -> None:
        self.ended = self.ended or why
        self._wake.set()
        self._over.set()

    async def over(self, sending: "asyncio.Future[None]") -> None:
        """Until the watch has ended, or sending to its client has."""
        sending.add_done_callback(lambda done: self._over.set())
        await self._over.wait()

    async def next(self) -> Entry:
        """The next event; raises what ended the watch after the last one."""
        while not self._queue:
            if self.ended is not None:
                raise self.ended
            self._wake.clear()
            await self._wake.wait()
        return self._queue.popleft()


class Watchers:
    """All open watches of one stream; `slots` bounds those of all streams together."""

    def __init__(self, limit: int, slots: "Slots") -> None:
        self._limit = limit
        self._slots = slots
        self._open: dict[Watcher, str] = {}

    def open(self, client: str = "") -> Watcher:
        """Raises TooManyWatchers."""
        self._slots.take(client)
        watcher = Watcher(self._limit)
        self._open[watcher] = client
        return watcher

    def close(self, watcher: Watcher) -> None:
        self._slots.give(self._open.pop(watcher))

    @property
    def lag(self) -> int:
        """Events that the slowest one is behind."""
        return max(map(len, self._open), default=0)

    def push(self, entry: Entry) -> None:
        """Everybody has it at once; they are woken in batches, so that the first ones' bytes are on their way before
        the last ones' turn."""
        for watcher in self._open:
            watcher.push(entry)
        self._wake(list(self._open))

    def _wake(self, sleeping: list[Watcher]) -> None:
        for watcher in sleeping[:BATCH]:
            watcher.wake()
        if len(sleeping) > BATCH:
            asyncio.get_running_loop().call_soon(self._wake, sleeping[BATCH:])

    def end(self) -> None:
        for watcher in self._open:
            watcher.end(Stopping("the pod resources server is stopping; connect again"))

    def __len__(self) -> int:
        return len(self._open)


class Slots:
    """How many watches may be open at once, in all and of one client."""

    def __init__(self, total: int, per_client: int = 0) -> None:
        self._total = total
        self._per_client = per_client or total
        self._taken: Counter[str] = Counter()

    def take(self, client: str) -> None:
        if self._taken.total() >= self._total:
            raise TooManyWatchers(f"{self._total} watches are open already; close one")
        if self._taken[client] >= self._per_client:
            raise TooManyWatchers(f"{self._per_client} watches are open already in this process; close one")
        self._taken[client] += 1

    def give(self, client: str) -> None:
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]
