"""ConfigMaps, Secrets and ServiceAccounts: what pods mount and run as.

stringData of Secrets is merged into data and not stored; tokens of ServiceAccounts are issued through a subresource
and not stored.
"""

import base64
import re

import msgspec
from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden, invalid, required, too_long
from protocols.kinds.check.table import Causes, Struct, changed_causes, together
from protocols.kinds.check.values import config_key_faults
from protocols.kinds.served.columns import AGE, NAME, cell
from protocols.kinds.served.row import Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.jsons import read_json
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

SIZE_LIMIT = 1024 * 1024
"""Bytes of all values of an object, decoded."""
REDACTED = "<secret contents redacted>"


def _data_count(obj: Object) -> int:
    return len(at(obj, "data") or {}) + len(at(obj, "binaryData") or {})


def _binary_bytes(data: Object) -> int:
    """Return how many bytes the base64 values of a map stand for."""
    return sum(len(value) // 4 * 3 - value.count("=", -2) for value in data.values())


def _config_size(path: str, obj: Object, causes: Causes) -> None:
    plain = sum(len(value.encode()) for value in (obj.get("data") or {}).values())
    if plain + _binary_bytes(obj.get("binaryData") or {}) > SIZE_LIMIT:
        causes.append(too_long("data", SIZE_LIMIT))


def _secret_size(path: str, obj: Object, causes: Causes) -> None:
    if _binary_bytes(obj.get("data") or {}) > SIZE_LIMIT:
        causes.append(too_long("data", SIZE_LIMIT))


def _immutable_causes(new: Object, old: Object, *fields: str) -> list[Cause]:
    if old.get("immutable") is not True:
        return []
    causes = [forbidden("immutable", "field is immutable when `immutable` is set")] if not new.get("immutable") else []
    changed = [name for name in fields if new.get(name) != old.get(name)]
    return causes + [forbidden(name, "field is immutable when `immutable` is set") for name in changed]


GOOD_KEY = re.compile(r"(?!\.\.|\.$)[-._a-zA-Z0-9]{1,253}").fullmatch


def _keys(path: str, data: Object, causes: Causes) -> None:
    """Check that keys are names of files, since pods mount them."""
    if not all(map(GOOD_KEY, data)):
        causes.extend(invalid(f"{path}[{key}]", key, fault) for key in data for fault in config_key_faults(key))


def _once_each(path: str, obj: Object, causes: Causes) -> None:
    for key in sorted((obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys()):
        causes.append(invalid(f"data[{key}]", key, f"duplicate of key present in binaryData[{key}]"))


class _ConfigMapStrategy(Strategy):
    rules = Struct(also=together(_config_size, _once_each), data=_keys, binaryData=_keys)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) + _immutable_causes(new, old, "data", "binaryData")


CONFIGMAPS = Served(
    **asdict(kinds.CONFIGMAPS),
    strategy=_ConfigMapStrategy(),
    columns=(NAME, Column("Data", _data_count), AGE),
)


DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
"""Types of secrets that hold one JSON object, and its key."""
NEEDED = {
    **{kind: (key,) for kind, key in DOCKER.items()},
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Keys that a secret of this type must have."""
EITHER = {"kubernetes.io/basic-auth": ("username", "password")}
"""Keys of which a secret of this type must have one."""
ACCOUNT_TOKEN, ACCOUNT = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"


def _content_of_type(path: str, secret: Object, causes: Causes) -> None:
    kind, data = secret["type"], secret.get("data") or {}
    missing = [key for key in NEEDED.get(kind, ()) if key not in data or (not data[key] and key == "ssh-privatekey")]
    either = EITHER.get(kind, ())
    missing += either if not any(key in data for key in either) else ()
    causes.extend(required(f"data[{key}]") for key in missing)
    if kind in DOCKER and not missing:
        _docker_config(f"data[{DOCKER[kind]}]", data[DOCKER[kind]], causes)
    if kind == ACCOUNT_TOKEN and not (at(secret, "metadata", "annotations") or {}).get(ACCOUNT):
        causes.append(required(f"metadata.annotations[{ACCOUNT}]"))


def _docker_config(path: str, value: str, causes: Causes) -> None:
    try:
        content = read_json(base64.b64decode(value))
    except msgspec.DecodeError as error:
        causes.append(invalid(path, REDACTED, str(error)))
    else:
        if content is not None and not isinstance(content, dict):
            causes.append(invalid(path, REDACTED, "it is no JSON object"))


class _SecretStrategy(Strategy):
    rules = Struct(also=together(_secret_size, _content_of_type), data=_keys)

    def default(self, obj: Object) -> None:
        obj["type"] = obj.get("type") or "Opaque"
        if strings := obj.pop("stringData", None):
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

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
            obj["secrets"] = [{key: value for key, value in secret.items() if key == "name"} for secret in secrets]

    def prepare_update(self, new: Object, old: Object) -> None:
        self.prepare_create(new)


SERVICEACCOUNTS = Served(
    **asdict(kinds.SERVICEACCOUNTS),
    strategy=AccountStrategy(),
    columns=(NAME, AGE),
    subresources=(Subresource("token", ("create",), "TokenRequest", "authentication.k8s.io", "v1"),),
    returns_object=True,
)
