"""One informer, several who listen."""

from protocols.kube.informer import Handler
from protocols.kube.meta import Object


class Handlers:
    def __init__(self, *handlers: Handler) -> None:
        self._handlers = handlers

    def on_add(self, obj: Object) -> None:
        for handler in self._handlers:
            handler.on_add(obj)

    def on_update(self, old: Object, new: Object) -> None:
        for handler in self._handlers:
            handler.on_update(old, new)

    def on_delete(self, obj: Object) -> None:
        for handler in self._handlers:
            handler.on_delete(obj)
