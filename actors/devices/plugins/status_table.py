"""Who is who among the connections to plugins, for people: pure, but that it tells each change."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from protocols.bus import Op
from protocols.messages.devices import PLUGIN_GONE, PLUGIN_SERVES, PLUGIN_SILENT, PLUGIN_WAITS, PluginView

Tell = Callable[[Op, str, PluginView], None]


@dataclass
class Board:
    """Views by resource and generation. Of those that are gone the newest of each resource is kept."""

    tell: Tell = lambda op, key, view: None
    views: dict[str, PluginView] = field(default_factory=dict)

    def registered(self, generation: int, view: PluginView) -> None:
        for key, old in [*self.views.items()]:
            if old.resource == view.resource and old.state == PLUGIN_GONE:
                self._delete(key)
        self._set(generation, view, PLUGIN_SILENT)

    def reported(self, resource: str, generation: int) -> None:
        """It has sent a list: it serves, and an older one waits for its end."""
        mine = self.views.get(_key(resource, generation))
        if mine is None or mine.state == PLUGIN_SERVES:
            return
        for other, old in [*self.views.items()]:
            if old.resource == resource and old.state == PLUGIN_SERVES:
                self._set(int(other.rpartition(" ")[2]), old, PLUGIN_WAITS)
        self._set(generation, mine, PLUGIN_SERVES)

    def ended(self, resource: str, generation: int, why: str) -> None:
        mine = self.views.get(_key(resource, generation))
        if mine is None:
            return
        if any(
            old.resource == resource and old.state != PLUGIN_GONE and old is not mine for old in self.views.values()
        ):
            self._delete(_key(resource, generation))
        else:
            self._set(generation, msgspec.structs.replace(mine, why=why), PLUGIN_GONE)

    def _set(self, generation: int, view: PluginView, state: str) -> None:
        key = _key(view.resource, generation)
        self.views[key] = msgspec.structs.replace(view, state=state, since_ns=time.time_ns())
        self.tell(Op.UPSERT, key, self.views[key])

    def _delete(self, key: str) -> None:
        self.tell(Op.DELETE, key, self.views.pop(key))


def _key(resource: str, generation: int) -> str:
    return f"{resource} {generation}"
