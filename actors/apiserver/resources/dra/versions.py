"""resource.k8s.io in its older versions: v1beta2 looks as v1 does, v1beta1 wraps devices and flattens requests.

Everything is filled, checked and stored in the form of v1; paths in errors are v1's, as upstream's are.
"""

from collections.abc import Callable

from actors.apiserver.catalog.face import ChangingFace
from actors.apiserver.catalog.strategy import Strategy
from actors.apiserver.errors.causes import Cause
from actors.apiserver.objects.paths import Obj
from actors.apiserver.replica.stored import Stored, decode_stored
from actors.apiserver.resources.dra.lists import rows, table
from actors.apiserver.writes.encode import encode_object

GROUP = "resource.k8s.io"
Convert = Callable[[Obj], Obj]
FLAT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def same(obj: Obj) -> Obj:
    return obj


def wrapped_devices(obj: Obj) -> Obj:
    """A slice as v1beta1 has it."""
    return _with_devices(obj, lambda device: {"name": device.get("name"), "basic": _but(device, "name")})


def plain_devices(obj: Obj) -> Obj:
    return _with_devices(obj, lambda device: {**_but(device, "basic"), **table(device.get("basic"))})


def _with_devices(obj: Obj, change: Convert) -> Obj:
    spec = table(obj.get("spec"))
    if not isinstance(spec.get("devices"), list):
        return obj
    return {**obj, "spec": {**spec, "devices": [change(device) for device in rows(spec["devices"])]}}


def flat_requests(obj: Obj) -> Obj:
    """A claim as v1beta1 has it."""
    return _with_requests(obj, lambda request: {**_but(request, "exactly"), **table(request.get("exactly"))})


def exact_requests(obj: Obj) -> Obj:
    """Any field of the flat form that says something makes an exact request."""
    return _with_requests(obj, _exact)


def _exact(request: Obj) -> Obj:
    exactly = {name: request[name] for name in FLAT if request.get(name)}
    rest = {name: value for name, value in request.items() if name not in FLAT}
    return {**rest, "exactly": exactly} if exactly else rest


def _with_requests(obj: Obj, change: Convert) -> Obj:
    spec = table(obj.get("spec"))
    devices = table(spec.get("devices"))
    if not isinstance(devices.get("requests"), list):
        return obj
    requests = [change(request) for request in rows(devices["requests"])]
    return {**obj, "spec": {**spec, "devices": {**devices, "requests": requests}}}


def in_template(change: Convert) -> Convert:
    def changed(obj: Obj) -> Obj:
        spec = table(obj.get("spec"))
        if not isinstance(spec.get("spec"), dict):
            return obj
        return {**obj, "spec": {**spec, "spec": change({"spec": spec["spec"]})["spec"]}}

    return changed


def _but(obj: Obj, name: str) -> Obj:
    return {key: value for key, value in obj.items() if key != name}


class VersionFace(ChangingFace):
    def __init__(self, version: str, stored: str, show: Convert = same, store: Convert = same) -> None:
        self._version = f"{GROUP}/{version}"
        self._stored = f"{GROUP}/{stored}"
        self._show = show
        self._store = store

    def make(self, stored: Stored) -> Stored:
        obj = self._show(decode_stored(stored.raw, stored.rv))
        return Stored(stored.key, stored.rv, encode_object({**obj, "apiVersion": self._version}))

    def to_stored(self, obj: Obj) -> Obj:
        return {**self._store(obj), "apiVersion": self._stored}


class VersionStrategy(Strategy):
    """The hooks of the row that stores the objects, on the form they know."""

    def __init__(self, inner: Strategy, show: Convert, store: Convert) -> None:
        self._inner = inner
        self._show = show
        self._store = store
        self.has_status = inner.has_status
        self.has_generation = inner.has_generation

    def _through(self, obj: Obj, *hook: Callable[[Obj], None]) -> None:
        hub = self._store(obj)
        for each in hook:
            each(hub)
        shown = dict(self._show(hub))  # what needs no change is `obj` itself
        obj.clear()
        obj.update(shown)

    def default(self, obj: Obj) -> None:
        self._through(obj, self._inner.default)

    def prepare_create(self, obj: Obj) -> None:
        self._through(obj, self._inner.prepare_create)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        before = self._store(old)
        self._through(new, lambda hub: self._inner.prepare_update(hub, before))

    def prepare_status(self, new: Obj, old: Obj) -> None:
        before = self._store(old)
        self._through(new, lambda hub: self._inner.prepare_status(hub, before))

    def validate_create(self, obj: Obj) -> list[Cause]:
        return self._inner.validate_create(self._store(obj))

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        return self._inner.validate_update(self._store(new), self._store(old))

    def validate_status(self, new: Obj, old: Obj) -> list[Cause]:
        return self._inner.validate_status(self._store(new), self._store(old))

    def check_namespace(self, obj: Obj, namespace: Obj) -> list[Cause]:
        return self._inner.check_namespace(self._store(obj), namespace)
