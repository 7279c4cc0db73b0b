"""Open watches seen from within their servers: bookmarks come before the history behind them is gone.

A restarted watch cache reads back HISTORY_REVISIONS; a quarter of them after a mark, each watch that was open then must
have had an event or a bookmark at the mark or later.
"""

from typing import TYPE_CHECKING

import msgspec

from actors.apiserver.watch import bookmarks
from actors.apiserver.watch.hub import Hub
from actors.apiserver.watch.watcher import Watcher
from tests.simulation.model import Broken
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.world.world import World

SENT_S = 0.5
"""Seconds in which all watches get a bookmark that is due."""
MOST = 3
"""Reports of one run."""


class Noted(msgspec.Struct, frozen=True):
    """The watches of a hub that were open at a mark."""

    mark: int = 0
    watchers: tuple[Watcher, ...] = ()


class BookmarkCheck:
    """Observes the hubs of all API servers."""

    def __init__(self, world: "World") -> None:
        self._world, self._interval = world, int(world.limits.get("bookmark_history", 0)) // bookmarks.SHARE
        self._noted: dict[Hub, Noted] = {}
        self.broken: list[Broken] = []
        on_mark = Hub._on_mark

        def marked(hub: Hub, mark: int) -> None:
            on_mark(hub, mark)
            if not hub.empty.is_set():
                self._note(hub, mark)

        patch(Hub, "_on_mark", marked)

    def _note(self, hub: Hub, mark: int) -> None:
        noted = self._noted.get(hub, Noted())
        if noted.mark <= mark < noted.mark + self._interval:
            return
        self._noted[hub] = Noted(mark, tuple(watcher for watcher in hub.watchers() if watcher.bookmarks))
        if noted.mark < mark:
            until = self._world.now + 2 * SENT_S
            self._world.at(SENT_S, running(self._world), lambda: self._judge(noted, until))

    def _judge(self, noted: Noted, until: float) -> None:
        """Runs in a turn of the server, perhaps late: after a pause it has yet to send what is due."""
        late = [watcher for watcher in noted.watchers if not watcher.done and _position(watcher) < noted.mark]
        if late and self._world.now < until and len(self.broken) < MOST:
            who, behind = running(self._world).name, noted.mark - min(map(_position, late))
            text = f"{len(late)} watches of {who} are {behind} revisions behind mark {noted.mark}"
            self.broken.append(Broken("bookmarks come in time", text, self._world.elapsed))


def _position(watcher: Watcher) -> int:
    return max(watcher.position, watcher.channel.position)
