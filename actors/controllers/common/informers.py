"""One informer, several who listen."""

from collections.abc import Callable

from protocols.kube.informer import Handler
from protocols.kube.meta import Object, meta


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


class Changes:
    def __init__(self, changed: Callable[[Object], None], gone: Callable[[Object], None]) -> None:
        self._changed, self._gone = changed, gone

    def on_add(self, obj: Object) -> None:
        self._changed(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._changed(new)

    def on_delete(self, obj: Object) -> None:
        self._gone(obj)


KEPT = (
    "name", "namespace", "uid", "resourceVersion", "ownerReferences", "finalizers", "deletionTimestamp"
)  # fmt: skip


def slim(obj: Object) -> Object:
    """All the collector keeps of an object."""
    metadata = meta(obj)
    return {"metadata": {field: metadata[field] for field in KEPT if field in metadata}}
