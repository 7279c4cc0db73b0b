"""Older versions of resource.k8s.io: v1beta2 equals v1, v1beta1 wraps devices and flattens requests.

Objects are defaulted, validated and stored as v1; paths in errors are those of v1, as upstream's are.
"""

from collections.abc import Callable

from protocols.dra.versions import GROUP, Convert, same
from protocols.kinds.check.causes import Cause
from protocols.kinds.served.row import Converter
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object


class VersionConverter(Converter):
    """Converter between a stored version and another one; `show` and `store` change what differs in the spec."""

    changes = True

    def __init__(self, version: str, stored: str, show: Convert = same, store: Convert = same) -> None:
        self._version = f"{GROUP}/{version}"
        self._stored = f"{GROUP}/{stored}"
        self._show = show
        self._store = store

    def to_version(self, obj: Object) -> Object:
        shown = self._show(obj)
        if self._show is not same and (shape := kind_shape(*self._version.split("/"), shown["kind"])) is not None:
            clean(shown, shape)
        return {**shown, "apiVersion": self._version}

    def to_stored(self, obj: Object) -> Object:
        return {**self._store(obj), "apiVersion": self._stored}


class VersionStrategy(Strategy):
    """Apply the strategy of the storage version to objects of another version."""

    def __init__(self, inner: Strategy, show: Convert, store: Convert) -> None:
        self._inner = inner
        self._show = show
        self._store = store
        self.has_status = inner.has_status
        self.has_generation = inner.has_generation

    def _through(self, obj: Object, *hook: Callable[[Object], None]) -> None:
        hub = self._store(obj)
        for each in hook:
            each(hub)
        shown = dict(self._show(hub))  # what needs no change is `obj` itself
        obj.clear()
        obj.update(shown)

    def default(self, obj: Object) -> None:
        self._through(obj, self._inner.default)

    def prepare_create(self, obj: Object) -> None:
        self._through(obj, self._inner.prepare_create)

    def prepare_update(self, new: Object, old: Object) -> None:
        before = self._store(old)
        self._through(new, lambda hub: self._inner.prepare_update(hub, before))

    def prepare_status(self, new: Object, old: Object) -> None:
        before = self._store(old)
        self._through(new, lambda hub: self._inner.prepare_status(hub, before))

    def validate_create(self, obj: Object) -> list[Cause]:
        return self._inner.validate_create(self._store(obj))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self._inner.validate_update(self._store(new), self._store(old))

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return self._inner.validate_status(self._store(new), self._store(old))

    def check_namespace(self, obj: Object, namespace: Object) -> list[Cause]:
        return self._inner.check_namespace(self._store(obj), namespace)
