"""Secrets: base64 data; stringData is merged into data and not stored."""

import base64
import binascii

from actors.apiserver.api.causes import Cause, forbidden, invalid
from actors.apiserver.api.objects import Obj
from actors.apiserver.api.resource import Column, Resource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME, cell
from actors.apiserver.resources.configmaps import data_causes, data_count, immutable_causes


class SecretStrategy(Strategy):
    def default(self, obj: Obj) -> None:
        obj.setdefault("type", "Opaque")
        strings = obj.get("stringData")
        if isinstance(strings, dict) and all(isinstance(value, str) for value in strings.values()):
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
            del obj["stringData"]

    def validate_create(self, obj: Obj) -> list[Cause]:
        causes = data_causes(obj, "data", "stringData")
        data = obj.get("data") or {}
        return causes or [invalid(f"data[{key}]", "", "must be base64") for key in data if not _is_base64(data[key])]

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
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
