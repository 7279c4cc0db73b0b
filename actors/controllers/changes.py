"""One informer's events as two calls: something is, something is no more."""

from collections.abc import Callable

from protocols.kube.meta import Object


class Changes:
    def __init__(self, changed: Callable[[Object], None], gone: Callable[[Object], None]) -> None:
        self._changed, self._gone = changed, gone

    def on_add(self, obj: Object) -> None:
        self._changed(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._changed(new)

    def on_delete(self, obj: Object) -> None:
        self._gone(obj)
