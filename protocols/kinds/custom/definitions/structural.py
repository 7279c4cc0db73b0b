"""Validate that a schema is structural: each field has one type, and logical junctors only narrow it.

Messages equal upstream's.
"""

from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid, required, unsupported
from protocols.kinds.custom.schema.coercion import COMMON_FIELDS, pruned_value
from protocols.kinds.custom.schema.embedded import embedded_causes
from protocols.kinds.custom.schema.node import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    VALIDATIONS,
    Node,
)
from protocols.kinds.custom.schema.pattern import Pattern, PatternInvalid
from protocols.kinds.custom.schema.validate import part_causes
from protocols.kube.objects import fresh_copy

Raw = dict[str, Any]
LISTS, MAPS = ("atomic", "set", "map"), ("atomic", "granular")
OF_SET = f"must be atomic as item of a list with {LIST_TYPE}=set"
A_KEY = f"this property is in {LIST_KEYS}, so it"


def _list_faults(raw: Raw, path: str) -> list[Cause]:
    kind, keys = raw.get(LIST_TYPE), raw.get(LIST_KEYS)
    causes = []
    if kind is not None and kind not in LISTS:
        causes.append(unsupported(f"{path}.{LIST_TYPE}", kind, LISTS))
    if kind is not None and raw.get("type") != "array":
        causes.append(_type(raw, path, f"must be array if {LIST_TYPE} is specified"))
    elif kind in ("set", "map") and isinstance(raw.get("items"), dict):
        causes += _item_faults(raw["items"], kind, f"{path}.items")
    elif kind == "map":
        causes.append(_no_items(raw, f"{path}.items"))
    if kind == "map":
        causes += _key_faults(raw, keys or [], path)
    elif keys:
        where, detail = f"{path}.{LIST_TYPE}", f"must be map if {LIST_KEYS} is non-empty"
        causes.append(required(where, detail) if kind is None else invalid(where, kind, detail))
    return causes


def _no_items(raw: Raw, path: str) -> Cause:
    if raw.get("items") is None:
        return required(path, f"must have a schema if {LIST_TYPE} is map")
    return invalid(path, raw["items"], f"must only have a single schema if {LIST_TYPE} is map")


def _map_faults(raw: Raw, path: str) -> list[Cause]:
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
    items = raw.get("items")
    if not isinstance(items, dict):
        return causes
    if items.get("type") != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        return [*causes, invalid(f"{path}.items.type", items.get("type") or "", text)]
    seen = set[str]()
    for key in keys:
        schema = (items.get("properties") or {}).get(key)
        if isinstance(schema, dict):
            causes += _one_key(schema, key, items, f"{path}.items.properties[{key}]")
        else:
            causes.append(invalid(where, keys, "entries must all be names of item properties"))
        if key in seen:
            causes.append(invalid(where, keys, "must not contain duplicate entries"))
        seen.add(key)
    return causes


def _one_key(schema: Raw, key: str, items: Raw, path: str) -> list[Cause]:
    causes = []
    if schema.get("type") in ("array", "object"):
        detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
        causes.append(invalid(f"{path}.type", items["type"], detail))
    if key not in (items.get("required") or ()) and schema.get("default") is None:
        causes.append(required(f"{path}.default", f"{A_KEY} must have a default or be a required property"))
    if schema.get("nullable"):
        causes.append(forbidden(f"{path}.nullable", f"{A_KEY} cannot be nullable"))
    return causes


TYPES = ("array", "boolean", "integer", "number", "object", "string")
ROOT, ITEM, FIELD = "at the root", "for specified array items", "for specified object fields"
GONE = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id")
"""Keywords that OpenAPI v3 or upstream does not support."""
INT_OR_TEXT = [{"type": "integer"}, {"type": "string"}]
NESTED = {
    **dict.fromkeys(("additionalProperties", "default", LIST_TYPE, MAP_TYPE), "undefined"),
    **dict.fromkeys(("title", "description", LIST_KEYS, VALIDATIONS), "empty"),
    **dict.fromkeys(("nullable", PRESERVE, EMBEDDED, INT_OR_STRING), "false"),
}
"""Fields that a schema in a logical junctor must not have, with their state if they are absent."""
MOST_DEEP = 64


def schema_faults(raw: Raw, path: str) -> list[Cause]:
    """Check an openAPIV3Schema; as upstream, rules and defaults are checked only in a structural one."""
    causes = sorted(_invariants(raw, path, ROOT, 0))
    if any(not _is_unknown_type(cause) for cause in causes):
        return causes
    causes += sorted(_undeclared(raw, raw, path, path))
    if not causes and _has_rules(raw):
        causes = _rule_faults(raw, path)
    if all(map(_is_unknown_type, causes)):
        causes += _defaults(raw, path, True)
    return causes


def _is_unknown_type(cause: Cause) -> bool:
    """Return True for a fault that does not keep upstream from validating the defaults, too."""
    return cause.field.endswith(".type") and cause.reason == "FieldValueNotSupported"


def _has_rules(raw: Raw) -> bool:
    parts = [*(raw.get("properties") or {}).values(), raw.get("items"), raw.get("additionalProperties")]
    return bool(raw.get(VALIDATIONS)) or any(_has_rules(part) for part in parts if isinstance(part, dict))


def _rule_faults(raw: Raw, path: str) -> list[Cause]:
    """Check the CEL rules; imported lazily, because most planes have no rules and the engine is large."""
    from protocols.kinds.custom.rule.check import rule_faults

    return rule_faults(raw, path)


def _invariants(raw: Raw, path: str, level: str, depth: int) -> list[Cause]:
    if depth > MOST_DEEP:
        return [forbidden(path, f"schemas more than {MOST_DEEP} levels deep are not supported")]
    causes = _type_faults(raw, path, level) + _extension_faults(raw, path) + _own_faults(raw, path)
    causes += _logic_faults(raw, path, depth)
    for name, part in (raw.get("properties") or {}).items():
        causes += _invariants(part, f"{path}.properties[{name}]", FIELD, depth + 1)
    if isinstance(raw.get("items"), dict):
        causes += _invariants(raw["items"], f"{path}.items", ITEM, depth + 1)
    additional = raw.get("additionalProperties")
    if additional is not None:
        causes += _additional_faults(raw, additional, path, level)
        if isinstance(additional, dict):
            causes += _invariants(additional, f"{path}.additionalProperties", FIELD, depth + 1)
    if level == ROOT or raw.get(EMBEDDED):
        causes += _metadata_faults(raw, path, level)
    if raw.get(EMBEDDED) and not raw.get(PRESERVE) and not raw.get("properties"):
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        causes.append(required(f"{path}.properties", text))
    return causes


def _type_faults(raw: Raw, path: str, level: str) -> list[Cause]:
    kind = raw.get("type") or ""
    if kind == "null":
        return [forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")]
    causes = [unsupported(f"{path}.type", kind, TYPES)] if kind and kind not in TYPES else []
    if raw.get(EMBEDDED) and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        return [*causes, invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)]
    if not kind and not raw.get(INT_OR_STRING) and not raw.get(PRESERVE):
        return [required(f"{path}.type", f"must not be empty {level}")]
    if kind and level == ROOT and kind != "object":
        return [*causes, invalid(f"{path}.type", kind, "must be object at the root")]
    if isinstance(raw.get("items"), list):
        return [*causes, forbidden(f"{path}.items", "items must be a schema object and not an array")]
    if kind == "array" and not isinstance(raw.get("items"), dict):
        return [*causes, required(f"{path}.items", "must be specified")]
    return causes


def _additional_faults(raw: Raw, additional: Any, path: str, level: str) -> list[Cause]:
    where = f"{path}.additionalProperties"
    if not isinstance(additional, dict | bool):
        return [invalid(where, additional, "must be a schema or a boolean")]
    causes = []
    if level == ROOT:
        causes.append(forbidden(where, "must not be used at the root"))
    if raw.get("properties") and additional is not True:
        causes.append(forbidden(where, "additionalProperties and properties are mutual exclusive"))
    if raw.get(EMBEDDED):
        causes.append(forbidden(where, "must not be used if x-kubernetes-embedded-resource is set"))
    return causes


def _extension_faults(raw: Raw, path: str) -> list[Cause]:
    causes = []
    for name in (PRESERVE, EMBEDDED):
        if raw.get(INT_OR_STRING) and raw.get(name):
            causes.append(invalid(f"{path}.{name}", True, f"must be false if {INT_OR_STRING} is true"))
    if raw.get(PRESERVE) is False:
        causes.append(invalid(f"{path}.{PRESERVE}", False, "must be true or undefined"))
    return causes + _list_faults(raw, path) + _map_faults(raw, path)


def _own_faults(raw: Raw, path: str) -> list[Cause]:
    causes = [
        forbidden(f"{path}.{name}", f"{name} is not supported") for name in GONE if raw.get(name) not in (None, "")
    ]
    if raw.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{path}.uniqueItems", text))
    for name in ("maximum", "minimum", "multipleOf"):
        if raw.get(name) is not None and (isinstance(raw[name], bool) or not isinstance(raw[name], int | float)):
            causes.append(invalid(f"{path}.{name}", raw[name], "must be a number"))
    if raw.get("multipleOf") is not None and not causes and raw["multipleOf"] <= 0:
        causes.append(invalid(f"{path}.multipleOf", raw["multipleOf"], "must be greater than 0"))
    try:
        Pattern(raw.get("pattern") or "").check()
    except PatternInvalid as error:
        text = f"must be a valid regular expression, but isn't: {error}"
        causes.append(invalid(f"{path}.pattern", raw["pattern"], text))
    return causes


def _logic_faults(raw: Raw, path: str, depth: int) -> list[Cause]:
    """Check anyOf, allOf, oneOf and not: they may restrict values, but not declare fields."""
    causes = []
    for word in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(raw.get(word) or ()):
            if word == "anyOf" and raw[word] == INT_OR_TEXT:
                continue
            if word == "allOf" and index == 0 and part.get("anyOf") == INT_OR_TEXT:
                part = {name: value for name, value in part.items() if name != "anyOf"}
            causes += _nested(part, f"{path}.{word}[{index}]", depth + 1)
    if isinstance(raw.get("not"), dict):
        causes += _nested(raw["not"], f"{path}.not", depth + 1)
    return causes


def _nested(raw: Raw, path: str, depth: int) -> list[Cause]:
    if depth > MOST_DEEP:
        return [forbidden(path, f"schemas more than {MOST_DEEP} levels deep are not supported")]
    kind = raw.get("type")
    causes = [forbidden(f"{path}.type", "must be empty to be structural")] if kind else []
    causes += [unsupported(f"{path}.type", kind, TYPES)] if kind and kind not in TYPES else []
    causes += _map_faults(raw, path)
    for name, state in NESTED.items():
        if raw.get(name) not in (None, "", False, []):
            causes.append(forbidden(f"{path}.{name}", f"must be {state} to be structural"))
    causes += _own_faults(raw, path) + _logic_faults(raw, path, depth)
    for name, part in (raw.get("properties") or {}).items():
        if name == "metadata":
            causes.append(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))
        causes += _nested(part, f"{path}.properties[{name}]", depth + 1)
    return causes + (_nested(raw["items"], f"{path}.items", depth + 1) if isinstance(raw.get("items"), dict) else [])


def _metadata_faults(raw: Raw, path: str, level: str) -> list[Cause]:
    properties = raw.get("properties") or {}
    causes = []
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        schema = properties.get(name)
        if schema is not None and schema.get("type") != wanted:
            place = f"{path}.properties[{name}].type"
            causes.append(invalid(place, schema.get("type") or "", f"must be {wanted}"))
    metadata = properties.get("metadata") or {}
    names = set(metadata.get("properties") or ())
    if level == ROOT and (names - {"name", "generateName"} or set(metadata) - {"type", "properties"}):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        causes.append(forbidden(f"{path}.properties[metadata]", text))
    return causes


def _undeclared(logic: Raw, whole: Any, path: str, where: str) -> list[Cause]:
    """Require that what the logical junctors of the root name is declared outside them; upstream sees no others.

    `path` is that of `whole`, `where` that of `logic`, whose junctors restrict it.
    """
    causes = []
    for word in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(logic.get(word) or ()):
            causes += _undeclared_parts(part, whole, path, f"{where}.{word}[{index}]")
    if isinstance(logic.get("not"), dict):
        causes += _undeclared_parts(logic["not"], whole, path, f"{where}.not")
    return causes


def _undeclared_parts(part: Raw, whole: Any, path: str, where: str) -> list[Cause]:
    if not isinstance(whole, dict):
        return [required(path, f"because it is defined in {where}")]
    causes = _undeclared(part, whole, path, where)
    if isinstance(part.get("items"), dict):
        causes += _undeclared_parts(part["items"], whole.get("items"), f"{path}.items", f"{where}.items")
    for name, below in (part.get("properties") or {}).items():
        at, declared = f"properties[{name}]", (whole.get("properties") or {}).get(name)
        causes += _undeclared_parts(below, declared, f"{path}.{at}", f"{where}.{at}")
    return causes


def _defaults(raw: Raw, path: str, root: bool = False) -> list[Cause]:
    """Check that each default is valid under its own schema."""
    causes = []
    if raw.get("default") is not None and root:
        causes.append(forbidden(f"{path}.default", "must not be set at the root"))
    elif raw.get("default") is not None:
        causes += _default_faults(raw, f"{path}.default")
    for name, part in (raw.get("properties") or {}).items():
        where = f"{path}.properties[{name}]"
        causes += _forbidden_defaults(part, where, name) if root and name in COMMON_FIELDS else _defaults(part, where)
    for word in ("items", "additionalProperties"):
        if isinstance(raw.get(word), dict):
            causes += _defaults(raw[word], f"{path}.{word}")
    return causes


def _forbidden_defaults(raw: Raw, path: str, field: str) -> list[Cause]:
    """Reject defaults within apiVersion, kind and metadata."""
    causes = [forbidden(f"{path}.default", f"must not be set in top-level {field}")] if "default" in raw else []
    for name, part in (raw.get("properties") or {}).items():
        causes += _forbidden_defaults(part, f"{path}.properties[{name}]", field)
    return causes


def _default_faults(raw: Raw, path: str) -> list[Cause]:
    node = Node(raw)
    value = fresh_copy({"v": raw["default"]})["v"]
    causes = []
    if pruned_value(value, node):
        causes.append(invalid(path, raw["default"], "must not have unknown fields"))
    causes += part_causes(value, node, path) + embedded_causes(value, node, path)
    if not causes and node.ruled:
        from protocols.kinds.custom.rule.evaluate import rule_causes

        causes = rule_causes(value, node, path=path, root=node.embedded)
    return causes
