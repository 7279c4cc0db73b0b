"""ConfigMaps, Secrets and ServiceAccounts: what pods mount and run as.

stringData of Secrets is merged into data and not stored; tokens of ServiceAccounts are issued through a subresource
and not stored.
"""

import base64
import re

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden, invalid, required, too_long
from protocols.kinds.check.table import changed_causes
from protocols.kinds.check.values import config_key_faults
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

SIZE_LIMIT = 1024 * 1024


def _data_count(obj: Object) -> int:
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


def _immutable_causes(new: Object, old: Object, *fields: str) -> list[Cause]:
    if old.get("immutable") is not True:
        return []
    causes = [forbidden("immutable", "field is immutable when `immutable` is set")] if not new.get("immutable") else []
    changed = [name for name in fields if new.get(name) != old.get(name)]
    return causes + [forbidden(name, "field is immutable when `immutable` is set") for name in changed]


GOOD_KEY = re.compile(r"(?!\.\.|\.$)[-._a-zA-Z0-9]{1,253}").fullmatch


def key_causes(obj: Object, field: str) -> list[Cause]:
    """Require keys that are file names, since pods mount them."""
    keys = obj.get(field)
    if not keys or all(map(GOOD_KEY, keys)):
        return []
    return [invalid(f"{field}[{key}]", key, fault) for key in keys for fault in config_key_faults(key)]


class _ConfigMapStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        causes = key_causes(obj, "data") + key_causes(obj, "binaryData") + data_causes(obj, "data", "binaryData")
        if not obj.get("data") or not obj.get("binaryData"):
            return causes
        both = sorted(obj["data"].keys() & obj["binaryData"].keys())
        return causes + [invalid(f"data[{key}]", key, f"duplicate of key present in binaryData[{key}]") for key in both]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) + _immutable_causes(new, old, "data", "binaryData")


CONFIGMAPS = Served(
    **asdict(kinds.CONFIGMAPS),
    strategy=_ConfigMapStrategy(),
    columns=(NAME, Column("Data", _data_count), AGE),
)


NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Keys that a secret of this type must have."""


class _SecretStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj["type"] = obj.get("type") or "Opaque"
        strings = obj.get("stringData")
        if isinstance(strings, dict) and all(isinstance(value, str) for value in strings.values()):
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
            del obj["stringData"]

    def validate_create(self, obj: Object) -> list[Cause]:
        causes = key_causes(obj, "data") + data_causes(obj, "data")
        return causes + [
            required(f"data[{key}]") for key in NEEDED.get(obj["type"], ()) if key not in (obj.get("data") or {})
        ]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        changed = changed_causes(new, {"type": "Opaque", **old}, "type")
        return self.validate_create(new) + _immutable_causes(new, old, "data") + changed


SECRETS = Served(
    **asdict(kinds.SECRETS),
    strategy=_SecretStrategy(),
    columns=(NAME, Column("Type", cell("type")), Column("Data", _data_count), AGE),
    fields={"type": cell("type")},
)


class AccountStrategy(Strategy):
    """Secrets of an account are named, not described."""

    def prepare_create(self, obj: Object) -> None:
        if secrets := items(obj, "secrets"):
            obj["secrets"] = [{key: value for key, value in each.items() if key == "name"} for each in secrets]

    def prepare_update(self, new: Object, old: Object) -> None:
        self.prepare_create(new)


SERVICEACCOUNTS = Served(
    **asdict(kinds.SERVICEACCOUNTS),
    strategy=AccountStrategy(),
    columns=(NAME, AGE),
    subresources=(Subresource("token", ("create",), "TokenRequest", "authentication.k8s.io", "v1"),),
    returns_object=True,
)
