"""One rule, as its author wrote it."""

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
    """`oldSelf` is an optional value, and the rule is evaluated for new values too."""

    @functools.cached_property
    def uses_old(self) -> bool:
        """A transition rule."""
        return speaks_of_old(self.text)

    @property
    def named(self) -> str:
        """How an error speaks of it."""
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


def speaks_of_old(text: str) -> bool:
    return bool(old_places(text))


def old_places(text: str) -> list[tuple[int, int]]:
    """Where the variable stands; not a field, nor a text, of that name."""
    found = tokens(text)
    return [
        (token.start, token.end)
        for before, token in zip([None, *found], found, strict=False)
        if token.kind == "name" and token.text == OLD and (before is None or before.text != ".")
    ]
