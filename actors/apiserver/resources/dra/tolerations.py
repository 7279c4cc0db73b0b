"""Device taint tolerations of requests."""

from typing import Any

from actors.apiserver.api.causes import Cause, invalid, required, unsupported
from actors.apiserver.api.objects import Obj
from actors.apiserver.resources.dra.lists import each, rows, table
from actors.apiserver.resources.dra.names import label_key_causes, label_value_causes
from actors.apiserver.resources.dra.values import EFFECTS

TOLERATIONS = 16
OPERATORS = ("Equal", "Exists")


def default_tolerations(holder: Obj) -> None:
    for toleration in rows(holder.get("tolerations")):
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def tolerations_causes(path: str, tolerations: Any) -> list[Cause]:
    return each(path, tolerations, TOLERATIONS, _causes)


def _causes(path: str, value: Any) -> list[Cause]:
    held = table(value)
    key, operator, effect = held.get("key") or "", held.get("operator") or "", held.get("effect") or ""
    causes = label_key_causes(f"{path}.key", key) if key else []
    if not operator:
        causes.append(required(f"{path}.operator"))
    elif operator not in OPERATORS:
        causes.append(unsupported(f"{path}.operator", operator, OPERATORS))
    elif operator == "Exists":
        if held.get("value"):
            causes.append(invalid(f"{path}.value", held["value"], "must be empty for operator `Exists`"))
    elif not key:
        causes.append(invalid(f"{path}.operator", operator, "must be `Exists` when `key` is empty"))
    else:
        causes += label_value_causes(f"{path}.value", held.get("value") or "")
    if effect and effect not in EFFECTS:
        causes.append(unsupported(f"{path}.effect", effect, EFFECTS))
    return causes
