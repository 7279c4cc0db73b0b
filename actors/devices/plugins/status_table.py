"""State of each plugin connection, for users: serving, waiting, silent or gone. Pure, but that it publishes changes."""

import time
from collections.abc import Callable

import msgspec

from protocols.bus import Op
from protocols.messages.devices import PLUGIN_GONE, PLUGIN_REPLACED, PLUGIN_SERVES, PLUGIN_SILENT, PluginView

Publish = Callable[[Op, str, PluginView], None]


class PluginStatusTable(msgspec.Struct):
    """Views by resource and generation. Of gone connections only the newest of each resource is retained."""

    publish: Publish = lambda op, key, view: None
    views: dict[str, PluginView] = msgspec.field(default_factory=dict)

    def registered(self, generation: int, view: PluginView) -> None:
        for key, old in [*self.views.items()]:
            if old.resource == view.resource and old.state == PLUGIN_GONE:
                self._delete(key)
        self._set(generation, view, PLUGIN_SILENT)

    def reported(self, resource: str, generation: int) -> None:
        """Record a list: the connection serves now, and an older one waits for its end."""
        view = self.views.get(_key(resource, generation))
        if view is None or view.state == PLUGIN_SERVES:
            return
        for other, old in [*self.views.items()]:
            if old.resource == resource and old.state == PLUGIN_SERVES:
                self._set(int(other.rpartition(" ")[2]), old, PLUGIN_REPLACED)
        self._set(generation, view, PLUGIN_SERVES)

    def ended(self, resource: str, generation: int, why: str) -> None:
        view = self.views.get(_key(resource, generation))
        if view is None:
            return
        if any(
            old.resource == resource and old.state != PLUGIN_GONE and old is not view for old in self.views.values()
        ):
            self._delete(_key(resource, generation))
        else:
            self._set(generation, msgspec.structs.replace(view, why=why), PLUGIN_GONE)

    def _set(self, generation: int, view: PluginView, state: str) -> None:
        key = _key(view.resource, generation)
        self.views[key] = msgspec.structs.replace(view, state=state, since_ns=time.time_ns())
        self.publish(Op.UPSERT, key, self.views[key])

    def _delete(self, key: str) -> None:
        self.publish(Op.DELETE, key, self.views.pop(key))


def _key(resource: str, generation: int) -> str:
    return f"{resource} {generation}"
