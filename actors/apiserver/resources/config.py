"""ConfigMaps, Secrets and ServiceAccounts: what pods mount and run as.

stringData of Secrets is merged into data and not stored; tokens of ServiceAccounts are issued through a subresource
and not stored.
"""

import base64
import binascii

from actors.apiserver.api.causes import Cause, forbidden, invalid, too_long
from actors.apiserver.api.objects import at, items
from actors.apiserver.api.resource import Column, Resource, Subresource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME, cell
from protocols.kube.meta import Object

SIZE_LIMIT = 1024 * 1024


def data_count(obj: Object) -> int:
    return len(at(obj, "data") or {}) + len(at(obj, "binaryData") or {})


def data_causes(obj: Object, *fields: str) -> list[Cause]:
    """Require maps of strings whose total size is within the limit."""
    causes, size = [], 0
    for name in fields:
        data = obj.get(name)
        if data is None:
            continue
        held = _size(data)
        if held is None:
            causes.append(invalid(name, data, "must be a map of strings"))
        else:
            size += held
    return [*causes, too_long("data", SIZE_LIMIT)] if size > SIZE_LIMIT else causes


def _size(data: object) -> int | None:
    """Return the total length of the values, or None if this is not a map of strings."""
    if not isinstance(data, dict):
        return None
    size = 0
    for value in data.values():
        if not isinstance(value, str):
            return None
        size += len(value)
    return size


def immutable_causes(new: Object, old: Object, *fields: str) -> list[Cause]:
    if old.get("immutable") is not True:
        return []
    causes = [forbidden("immutable", "field is immutable when `immutable` is set")] if not new.get("immutable") else []
    changed = [name for name in fields if new.get(name) != old.get(name)]
    return causes + [forbidden(name, "field is immutable when `immutable` is set") for name in changed]


class ConfigMapStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        return data_causes(obj, "data", "binaryData")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) + immutable_causes(new, old, "data", "binaryData")


CONFIGMAPS = Resource(
    group="",
    version="v1",
    plural="configmaps",
    singular="configmap",
    kind="ConfigMap",
    namespaced=True,
    strategy=ConfigMapStrategy(),
    short_names=("cm",),
    columns=(NAME, Column("Data", data_count), AGE),
)


class SecretStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("type", "Opaque")
        strings = obj.get("stringData")
        if isinstance(strings, dict) and all(isinstance(value, str) for value in strings.values()):
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
            del obj["stringData"]

    def validate_create(self, obj: Object) -> list[Cause]:
        causes = data_causes(obj, "data", "stringData")
        data = obj.get("data") or {}
        return causes or [invalid(f"data[{key}]", "", "must be base64") for key in data if not _is_base64(data[key])]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new) + immutable_causes(new, old, "data")
        if new.get("type") != old.get("type", "Opaque"):
            causes.append(forbidden("type", "field is immutable"))
        return causes


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


SECRETS = Resource(
    group="",
    version="v1",
    plural="secrets",
    singular="secret",
    kind="Secret",
    namespaced=True,
    strategy=SecretStrategy(),
    columns=(NAME, Column("Type", cell("type")), Column("Data", data_count), AGE),
    fields={"type": cell("type")},
)


SERVICEACCOUNTS = Resource(
    group="",
    version="v1",
    plural="serviceaccounts",
    singular="serviceaccount",
    kind="ServiceAccount",
    namespaced=True,
    strategy=Strategy(),
    short_names=("sa",),
    columns=(NAME, Column("Secrets", lambda obj: len(items(obj, "secrets"))), AGE),
    subresources=(Subresource("token", ("create",), "TokenRequest", "authentication.k8s.io", "v1"),),
    returns_object=True,
)
