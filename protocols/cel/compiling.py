"""From a text to what the engine made of it, with faults told by the text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from protocols.cel import limits, places
from protocols.cel.errors import CompileError
from protocols.cel.literals import literal_faults
from protocols.cel.named import Given, given
from protocols.cel.scan import tokens
from protocols.cel.told import pointed, told_compile

if TYPE_CHECKING:
    from cel_expr_python import cel

Around = Mapping[str, tuple[str, str]]
"""What is put before and behind variables."""
SUSPECT = (",", "matches", "duration", "timestamp")
"""Without one of these an expression has no literals that could mean nothing."""


def taken(source: str, around: Around | None = None) -> Given:
    """Raises CompileError. What could hurt the engine does not reach it."""
    limits.check_length(source)
    limits.check_text(source)
    found = tokens(source)
    limits.check_tokens(found)
    return given(places.renamed(source, found), found, around)


def compiled(env: "cel.Env", text: Given) -> "cel.Expression":
    """Raises CompileError."""
    try:
        return env.compile(text.text)
    except (RuntimeError, ValueError) as error:
        raise _refusal(text, told_compile(str(error))) from None


def check_literals(serialized: bytes, text: Given) -> None:
    """Of a checked expression. Raises CompileError for those that mean nothing."""
    if not any(word in text.written for word in SUSPECT):
        return
    faults = literal_faults(serialized)
    if faults:
        raise _refusal(text, "\n".join(pointed(text.text, fault.at, fault.told) for fault in faults))


def _refusal(text: Given, told: str) -> CompileError:
    return CompileError(f"compilation failed: {places.as_written(text.as_written(told))}")
