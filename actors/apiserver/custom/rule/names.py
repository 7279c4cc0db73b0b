"""Escape field names for CEL."""

import re

RESERVED = {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
RESERVED |= {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
ACCESSIBLE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
SPECIAL = re.compile(r"__|[./-]")
WORDS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escaped(name: str) -> str | None:
    """Return the CEL identifier, or None if rules cannot access the field."""
    if name in RESERVED:
        return f"__{name}__"
    if ACCESSIBLE.fullmatch(name) is None:
        return None
    return SPECIAL.sub(lambda found: WORDS[found.group()], name)
