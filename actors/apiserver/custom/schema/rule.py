"""A validation rule as written in a schema."""

import functools
from dataclasses import dataclass
from typing import Any

from protocols.cel.source import tokens

OLD = "oldSelf"


@dataclass(frozen=True)
class Rule:
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
        return uses_old_self(self.text)

    @property
    def named(self) -> str:
        """Return the text that identifies the rule in errors."""
        return (self.message or self.text).strip()

    @property
    def failed(self) -> str:
        return self.message.strip() if self.message else f"failed rule: {self.named}"


def read_rule(raw: dict[str, Any]) -> Rule:
    return Rule(
        text=raw.get("rule") or "",
        message=raw.get("message") or "",
        message_expression=raw.get("messageExpression") or "",
        reason=raw.get("reason") or "",
        field_path=raw.get("fieldPath") or "",
        optional_old=bool(raw.get("optionalOldSelf")),
    )


def uses_old_self(text: str) -> bool:
    return bool(old_self_spans(text))


def old_self_spans(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) offsets of the variable oldSelf; fields and strings of that name do not count."""
    found = tokens(text)
    return [
        (token.start, token.end)
        for before, token in zip([None, *found], found, strict=False)
        if token.kind == "name" and token.text == OLD and (before is None or before.text != ".")
    ]
