"""Field names as CEL can say them."""

import re

RESERVED = {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
RESERVED |= {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
SAYABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
STRANGE = re.compile(r"__|[./-]")
WORDS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escaped(name: str) -> str | None:
    """None: no rule can name this field."""
    if name in RESERVED:
        return f"__{name}__"
    if SAYABLE.fullmatch(name) is None:
        return None
    return STRANGE.sub(lambda found: WORDS[found.group()], name)
