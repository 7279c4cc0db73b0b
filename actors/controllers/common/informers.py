"""Event handlers for informers, and the part of an object that their stores retain."""

from collections.abc import Callable, Iterable
from typing import Any

from protocols.kube.meta import Object, fields_of, meta
from protocols.kubeclient.informer import ResourceEventHandler


class FanOut:
    """Pass the events of one informer to several handlers."""

    def __init__(self, *handlers: ResourceEventHandler) -> None:
        self._handlers = list(handlers)

    def on_add(self, obj: Object) -> None:
        self._call(lambda handler: handler.on_add(obj))

    def on_update(self, old: Object, new: Object) -> None:
        self._call(lambda handler: handler.on_update(old, new))

    def on_delete(self, obj: Object) -> None:
        self._call(lambda handler: handler.on_delete(obj))

    def _call(self, event: Callable[[ResourceEventHandler], None]) -> None:
        """Pass an event to all handlers, then raise the first exception of them, which the informer logs."""
        errors = []
        for handler in self._handlers:
            try:
                event(handler)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


class ChangeHandler(ResourceEventHandler):
    """Reduce an informer's events to two callbacks: `changed` for adds and updates, `gone` for deletions."""

    def __init__(self, changed: Callable[[Any], None], gone: Callable[[Any], None]) -> None:
        self._changed, self._gone = changed, gone

    def on_add(self, obj: Object) -> None:
        self._changed(obj)

    def on_delete(self, obj: Object) -> None:
        self._gone(obj)


class FirstObject:
    """Handler that calls `begin` for the first object that counts."""

    def __init__(self, begin: Callable[[], None], counts: Callable[[Any], bool] = lambda obj: True) -> None:
        self._begin: Callable[[], None] | None = begin
        self._counts = counts

    def on_add(self, obj: Object) -> None:
        if self._begin is not None and self._counts(obj):
            begin, self._begin = self._begin, None
            begin()

    def on_update(self, old: Object, new: Object) -> None:
        """Ignore updates: only existence matters."""

    def on_delete(self, obj: Object) -> None:
        """Ignore deletions: informers go on."""


class LateHandler(FanOut):
    """Pass events on to handlers, some of which are added while the informer runs."""

    def add(self, handler: ResourceEventHandler, known: Iterable[Any]) -> None:
        """Add a handler, which learns of the `known` objects at once."""
        self._handlers.append(handler)
        for obj in known:
            handler.on_add(obj)


def without_managed_fields(obj: Object) -> Object:
    """Return the object without managedFields, which no controller reads: a third of most objects."""
    metadata = {field: value for field, value in meta(obj).items() if field != "managedFields"}
    return {**obj, "metadata": metadata}


RETAINED_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "ownerReferences", "finalizers", "deletionTimestamp"
)  # fmt: skip


def trim_to_metadata(obj: Object) -> Object:
    """Return the object with only the metadata that garbage collection needs."""
    return {"metadata": fields_of(meta(obj), RETAINED_METADATA)}
