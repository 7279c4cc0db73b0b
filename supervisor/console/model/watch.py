"""Positions of each resource at the watch cache and at every API process, and what their watches went through."""

from collections import Counter, deque

import msgspec

from protocols.messages.objects import OWNER
from supervisor.base.groups import APISERVER
from supervisor.console.model.history import KEPT_S
from supervisor.console.model.metrics import Page
from supervisor.console.model.plane import House

PREFIX = "objects/"
REACH_STEP_S = 5.0
BOOKMARKS = "etcd_bookmark_total"
OPEN, REQUESTS, WINDOW = "apiserver_longrunning_requests", "apiserver_request_total", "nodeplane_replica_window"
STREAMED = "apiserver_watch_list_duration_seconds_count"
"""Lists at the beginning of watches."""


class ApiReplica(msgspec.Struct, frozen=True):
    """One API process's copy of a resource."""

    server: str
    behind: int
    """Revisions behind the watch cache."""
    synced: bool


class Watches(msgspec.Struct):
    """Watches of a resource since the console runs; gauges are of now."""

    open: int = 0
    ended: int = 0
    resumed: int = 0
    """Opened without a list before: a client that went on where it was."""
    relisted: int = 0
    window: int = 0
    """Changes that API processes retain for resuming."""


class WatchedResource(msgspec.Struct, frozen=True):
    """One row of the page."""

    name: str
    mark: int
    seq: int
    replicas: tuple[ApiReplica, ...]
    bookmark_age: float | None
    """Seconds since an event or a progress notice moved the position: how old a bookmark is at most."""
    watches: Watches
    reach: float | None
    """Seconds that the window goes back; None: further than the console runs."""


class _Counter:
    """Growth of a counter over restarts of its processes, since the first value seen."""

    def __init__(self) -> None:
        self.total = 0.0
        self._last: dict[str, float] = {}

    def update(self, server: str, value: float, *, first_counts: bool) -> None:
        last = self._last.get(server)
        if last is None:
            self.total += value if first_counts else 0.0
        else:
            self.total += value - last if value >= last else value
        self._last[server] = value


class WatchPage:
    """Rows of the watch screen, from positions of streams and metrics of API processes."""

    def __init__(self) -> None:
        self.store_revision = 0
        self._bookmarks: dict[str, int] = {}
        """Counts of progress notices."""
        self._marks: dict[str, tuple[int, float]] = {}
        """Revision, and when it moved or was confirmed."""
        self._open: dict[str, dict[str, int]] = {}
        self._windows: dict[str, dict[str, int]] = {}
        self._counters: dict[tuple[str, str], _Counter] = {}
        self._first: set[str] | None = None
        """API processes that the console found; the counters of later ones count from 0."""
        self._positions: dict[str, deque[tuple[float, int]]] = {}

    def moved(self, house: House, now: float) -> None:
        """Remember positions, by which the window's reach is computed."""
        if self._first is None and house.actors:
            self._first = set(house.actors)
        owns = house.owned(OWNER)
        for stream in owns:
            name = stream.stream.removeprefix(PREFIX)
            if self._marks.get(name, (-1, 0.0))[0] != stream.mark:
                self._marks[name] = (stream.mark, now)
            known = self._positions.setdefault(name, deque(maxlen=int(KEPT_S / REACH_STEP_S)))
            if known and stream.seq < known[-1][1]:
                known.clear()  # a new process of the watch cache counts from 0
            if not known or now - known[-1][0] >= REACH_STEP_S:
                known.append((now, stream.seq))
        gone = self._positions.keys() - {stream.stream.removeprefix(PREFIX) for stream in owns} if owns else ()
        for name in list(gone):
            for by_name in (self._positions, self._marks, self._bookmarks):
                by_name.pop(name, None)

    def cache_measured(self, page: Page, now: float) -> None:
        """Update counts from the metrics of the watch cache."""
        for name, count in _by_name(page, BOOKMARKS).items():
            if self._bookmarks.get(name, count) != count:
                self._marks[name] = (self._marks.get(name, (0, 0.0))[0], now)
            self._bookmarks[name] = count

    def server_measured(self, server: str, page: Page) -> None:
        """Update counts from an API process's metrics.

        Counters of a process that ran before the console begin at their first values, those of a later one at 0.
        """
        fresh = self._first is not None and server not in self._first
        self._open[server] = _by_name(page, OPEN, verb="WATCH")
        self._windows[server] = _by_name(page, WINDOW)
        ended = dict.fromkeys(self._open[server], 0) | _by_name(page, REQUESTS, verb="WATCH")
        opened = {name: value + ended.get(name, 0) for name, value in self._open[server].items()}
        listed = Counter(_by_name(page, REQUESTS, verb="LIST")) + Counter(_by_name(page, STREAMED))
        counts = {"ended": ended, "relisted": listed, "opened": opened}
        for kind, by_name in counts.items():
            for name, value in by_name.items():
                counter = self._counters.setdefault((kind, name), _Counter())
                counter.update(server, value, first_counts=fresh)

    def forget_servers(self, living: set[str]) -> None:
        for by_server in (self._open, self._windows):
            for server in by_server.keys() - living:
                del by_server[server]

    def notes(self, house: House) -> dict[str, str]:
        """Return the figures for the boxes of API processes and of the store."""
        cache = max((stream.mark for stream in house.owned(OWNER)), default=0)
        watches = {server: f"{sum(by_name.values())}w" for server, by_name in self._open.items()}
        return {**watches, "store": f"rev {max(cache, self.store_revision)}"}

    def rows(self, house: House, now: float) -> list[WatchedResource]:
        """Return all resources that the watch cache owns, by name."""
        replicas = self._replicas(house)
        return [
            self._row(stream.stream.removeprefix(PREFIX), stream.seq, stream.mark, replicas, now)
            for stream in sorted(house.owned(OWNER), key=lambda stream: stream.stream)
            if stream.stream.startswith(PREFIX)
        ]

    def _row(
        self, name: str, seq: int, mark: int, replicas: dict[str, list[ApiReplica]], now: float
    ) -> WatchedResource:
        moved = self._marks.get(name)
        watches = self._watches(name)
        return WatchedResource(
            name=name,
            mark=mark,
            seq=seq,
            replicas=tuple(replicas.get(name, ())),
            bookmark_age=now - moved[1] if moved else None,
            watches=watches,
            reach=self._reach(name, seq, watches.window, now),
        )

    def _replicas(self, house: House) -> dict[str, list[ApiReplica]]:
        replicas: dict[str, list[ApiReplica]] = {}
        for flow in house.flows():
            if flow.owner == OWNER and flow.follower.startswith(APISERVER):
                replicas.setdefault(flow.stream.removeprefix(PREFIX), []).append(
                    ApiReplica(flow.follower, flow.mark_lag, flow.synced)
                )
        return replicas

    def _watches(self, name: str) -> Watches:
        def total(kind: str) -> int:
            counter = self._counters.get((kind, name))
            return int(counter.total) if counter else 0

        opened, relisted = total("opened"), total("relisted")
        windows = [by_name[name] for by_name in self._windows.values() if name in by_name]
        return Watches(
            open=sum(by_name.get(name, 0) for by_name in self._open.values()),
            ended=total("ended"),
            resumed=max(0, opened - relisted),
            relisted=relisted,
            window=min(windows, default=0),
        )

    def _reach(self, name: str, seq: int, window: int, now: float) -> float | None:
        """The window begins with change `seq - window`: find when that was."""
        first = seq - window
        known = self._positions.get(name, ())
        before = [at for at, position in known if position <= first]
        return now - before[-1] if before and window and first > 0 else None


def _by_name(page: Page, metric: str, **labels: str) -> dict[str, int]:
    values = page.by(metric, "group", "resource", **labels)
    return {f"{group or 'core'}/{resource}": int(value) for (group, resource), value in values.items()}
