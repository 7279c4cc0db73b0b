"""Pass committed changes to every watch stream, and retain the newest for watchers slightly behind."""

from collections import deque
from collections.abc import Callable, Sequence

from actors.store.model.options import StoreOptions
from actors.store.model.types import KeyChange
from actors.store.watch.session import WatchSession
from actors.store.watch.watchers import Watcher


class WatchHub:
    """Streams register a session and a wake-up; `publish` is called after each commit, in revision order."""

    def __init__(self, options: StoreOptions, revision: int, compacted: int) -> None:
        self._options = options
        self._sessions: dict[WatchSession, Callable[[], None]] = {}
        self._recent: deque[KeyChange] = deque()
        self._bytes = 0
        self._floor = revision
        self.revision = revision
        self.compacted = compacted

    @property
    def watchers(self) -> int:
        return sum(len(session.watchers) for session in self._sessions)

    def add(self, session: WatchSession, wake: Callable[[], None]) -> None:
        self._sessions[session] = wake

    def remove(self, session: WatchSession) -> None:
        self._sessions.pop(session, None)

    def publish(self, changes: Sequence[KeyChange], revision: int, compacted: int) -> None:
        self.revision, self.compacted = revision, compacted
        if not changes:
            return
        self._remember(changes)
        for session, wake in self._sessions.items():
            session.publish(changes, revision)
            if session.queue or session.behind():
                wake()

    def _remember(self, changes: Sequence[KeyChange]) -> None:
        self._recent.extend(changes)
        self._bytes += sum(change.size for change in changes)
        while len(self._recent) > self._options.recent_changes or self._bytes > self._options.recent_bytes:
            oldest = self._recent.popleft()
            self._bytes -= oldest.size
            self._floor = oldest.revision

    def recent(self, watcher: Watcher) -> tuple[Sequence[KeyChange], int] | None:
        """Return about one queue of changes from memory, and the revision up to which they are complete.

        None if the watcher needs older changes. The caller delivers them without await, so a watcher that gets here
        always becomes synced, however fast commits come.
        """
        if watcher.next_revision <= self._floor:
            return None
        return self._cut(watcher.wanted(self._recent))

    def _cut(self, changes: list[KeyChange]) -> tuple[Sequence[KeyChange], int]:
        count, size = 0, 0
        for count, change in enumerate(changes, 1):
            size += change.size
            full = count >= self._options.queue_events or size >= self._options.queue_bytes
            if full and count < len(changes) and changes[count].revision != change.revision:
                return changes[:count], change.revision
        return changes, self.revision
