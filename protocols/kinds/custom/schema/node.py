"""Structural schemas, compiled once from JSON, and the validation rules they contain."""

import functools
from dataclasses import dataclass
from typing import Any

import msgspec

from protocols.cel.text.source import tokens
from protocols.kinds.custom.schema.pattern import Pattern

OLD = "oldSelf"


@dataclass(frozen=True)
class Rule:
    """One x-kubernetes-validations rule."""

    text: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old: bool = False
    """`oldSelf` is an optional value, and the rule also runs for new values."""

    @functools.cached_property
    def uses_old(self) -> bool:
        """True for a transition rule."""
        return _uses_old_self(self.text)

    @property
    def named(self) -> str:
        """Return the text that identifies the rule in errors."""
        return (self.message or self.text).strip()

    @property
    def failed(self) -> str:
        return self.message.strip() if self.message else f"failed rule: {self.named}"


def read_rule(raw: dict[str, Any]) -> Rule:
    """Read a rule of a schema; absent fields are empty."""
    return Rule(
        text=raw.get("rule") or "",
        message=raw.get("message") or "",
        message_expression=raw.get("messageExpression") or "",
        reason=raw.get("reason") or "",
        field_path=raw.get("fieldPath") or "",
        optional_old=bool(raw.get("optionalOldSelf")),
    )


def _uses_old_self(text: str) -> bool:
    return bool(old_self_spans(text))


def old_self_spans(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) offsets of the variable oldSelf; fields and strings of that name do not count."""
    parsed = tokens(text)
    return [
        (token.start, token.end)
        for before, token in zip([None, *parsed], parsed, strict=False)
        if token.kind == "name" and token.text == OLD and (before is None or before.text != ".")
    ]


Raw = dict[str, Any]
MISSING: Any = object()
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE, LIST_KEYS, MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"


class Node:
    """A schema and its children; `raw` holds the limits (maximum, minLength ...) under their JSON names."""

    __slots__ = (
        "additional",
        "all_of",
        "any_of",
        "default",
        "default_size",
        "embedded",
        "embeds",
        "int_or_string",
        "items",
        "kept",
        "keys",
        "list_type",
        "map_type",
        "no",
        "nullable",
        "one_of",
        "pattern",
        "properties",
        "raw",
        "required",
        "ruled",
        "rules",
        "type",
    )  # fmt: skip

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.type: str = raw.get("type") or ""
        self.properties = {name: Node(part) for name, part in (raw.get("properties") or {}).items()}
        additional = raw.get("additionalProperties")
        self.additional: Node | bool = Node(additional) if isinstance(additional, dict) else bool(additional)
        """True: additional fields are allowed and preserved."""
        self.items = Node(raw["items"]) if isinstance(raw.get("items"), dict) else None
        self.required: tuple[str, ...] = tuple(raw.get("required") or ())
        self.default: Any = raw.get("default", MISSING)
        self.default_size = len(msgspec.json.encode(self.default)) if self.default is not MISSING else 0
        """Bytes of the default as JSON."""
        self.nullable = bool(raw.get("nullable"))
        self.kept = bool(raw.get(PRESERVE))
        """Preserve unknown fields."""
        self.int_or_string = bool(raw.get(INT_OR_STRING))
        self.embedded = bool(raw.get(EMBEDDED))
        self.list_type: str = raw.get(LIST_TYPE) or "atomic"
        self.keys: tuple[str, ...] = tuple(raw.get(LIST_KEYS) or ())
        self.map_type: str = raw.get(MAP_TYPE) or "granular"
        self.pattern = Pattern(raw["pattern"]) if raw.get("pattern") else None
        self.all_of = [Node(part) for part in raw.get("allOf") or ()]
        self.any_of = [Node(part) for part in raw.get("anyOf") or ()]
        self.one_of = [Node(part) for part in raw.get("oneOf") or ()]
        self.no = Node(raw["not"]) if isinstance(raw.get("not"), dict) else None
        self.rules: tuple[Rule, ...] = tuple(map(read_rule, raw.get(VALIDATIONS) or ()))
        parts = [*self.properties.values(), self.items, self.additional]
        self.ruled: bool = bool(self.rules) or any(part.ruled for part in parts if isinstance(part, Node))
        """True if this schema or a child has rules."""
        self.embeds: bool = self.embedded or any(part.embeds for part in parts if isinstance(part, Node))
        """True if this schema or a child is an embedded resource."""

    def child(self, name: str) -> "Node | None":
        child = self.properties.get(name)
        if child is None and isinstance(self.additional, Node):
            return self.additional
        return child

    def knows(self, name: str) -> bool:
        """Return True if pruning preserves a field of this name."""
        return name in self.properties or self.kept or self.additional is not False
