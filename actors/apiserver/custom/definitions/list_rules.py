"""Validate the list and map extensions of a schema that define merge keys for server-side apply."""

from typing import Any

from actors.apiserver.api.causes import Cause, forbidden, invalid, required, unsupported
from actors.apiserver.custom.schema.node import LIST_KEYS, LIST_TYPE, MAP_TYPE

Raw = dict[str, Any]
LISTS, MAPS = ("atomic", "set", "map"), ("atomic", "granular")
OF_SET = f"must be atomic as item of a list with {LIST_TYPE}=set"
A_KEY = f"this property is in {LIST_KEYS}, so it"


def list_faults(raw: Raw, path: str) -> list[Cause]:
    kind, keys = raw.get(LIST_TYPE), raw.get(LIST_KEYS)
    causes = []
    if kind is not None and kind not in LISTS:
        causes.append(unsupported(f"{path}.{LIST_TYPE}", kind, LISTS))
    if kind is not None and raw.get("type") != "array":
        causes.append(_type(raw, path, f"must be array if {LIST_TYPE} is specified"))
    elif kind in ("set", "map") and isinstance(raw.get("items"), dict):
        causes += _item_faults(raw["items"], kind, f"{path}.items")
    if kind == "map":
        causes += _key_faults(raw, keys or [], path)
    elif keys:
        where, detail = f"{path}.{LIST_TYPE}", f"must be map if {LIST_KEYS} is non-empty"
        causes.append(invalid(where, kind, detail) if kind else required(where, detail))
    return causes


def map_faults(raw: Raw, path: str) -> list[Cause]:
    kind = raw.get(MAP_TYPE)
    if kind is None:
        return []
    causes = [] if kind in MAPS else [unsupported(f"{path}.{MAP_TYPE}", kind, MAPS)]
    if raw.get("type") != "object":
        causes.append(_type(raw, path, f"must be object if {MAP_TYPE} is specified"))
    return causes


def _type(raw: Raw, path: str, detail: str) -> Cause:
    kind = raw.get("type")
    return invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)


def _item_faults(items: Raw, kind: str, path: str) -> list[Cause]:
    causes = []
    if items.get("nullable"):
        causes.append(forbidden(f"{path}.nullable", f"cannot be nullable when {LIST_TYPE} is {kind}"))
    if kind == "set" and items.get("type") == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
        causes.append(invalid(f"{path}.{LIST_TYPE}", items[LIST_TYPE], OF_SET))
    if kind == "set" and items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        causes.append(invalid(f"{path}.{MAP_TYPE}", items.get(LIST_TYPE), OF_SET))
    return causes


def _key_faults(raw: Raw, keys: list[str], path: str) -> list[Cause]:
    where = f"{path}.{LIST_KEYS}"
    causes = [] if keys else [required(where, f"must not be empty if {LIST_TYPE} is map")]
    items = raw["items"] if isinstance(raw.get("items"), dict) else {}
    if items.get("type") != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        return [*causes, invalid(f"{path}.items.type", items.get("type") or "", text)]
    for index, key in enumerate(keys):
        found = (items.get("properties") or {}).get(key)
        if isinstance(found, dict):
            causes += _one_key(found, key, items, f"{path}.items.properties[{key}]")
        else:
            causes.append(invalid(where, keys, "entries must all be names of item properties"))
        if key in keys[:index]:
            causes.append(invalid(where, keys, "must not contain duplicate entries"))
    return causes


def _one_key(found: Raw, key: str, items: Raw, path: str) -> list[Cause]:
    causes = []
    if found.get("type") in ("array", "object"):
        detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
        causes.append(invalid(f"{path}.type", items["type"], detail))
    if key not in (items.get("required") or ()) and found.get("default") is None:
        causes.append(required(f"{path}.default", f"{A_KEY} must have a default or be a required property"))
    if found.get("nullable"):
        causes.append(forbidden(f"{path}.nullable", f"{A_KEY} cannot be nullable"))
    return causes
