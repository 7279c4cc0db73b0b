"""Object literals of mutating policies: `Object.spec{replicas: 3}` and `JSONPatch{op: "add", path: "/x"}`.

Upstream gives them types made of schemas. Here they become maps, since their result is merged as JSON: their fields are
checked when the result is applied.
"""

from protocols.cel.text.source import Token, tokens

HEADS = ("JSONPatch", "Object")


def as_maps(source: str) -> str:
    """Return the expression with a map in place of each object literal."""
    token_list = tokens(source)
    puts: list[tuple[int, int, str]] = []
    literals: list[bool] = []
    """For each open bracket, True if it is that of an object literal."""
    opened: list[bool] = []
    """For each of them, True while a value is wrapped."""
    at = 0
    while at < len(token_list):
        token = token_list[at]
        end = _head(token_list, at)
        if end:
            puts.append((token.start, token_list[end].start, ""))
            literals.append(True)
            opened.append(False)
            at = end + 1
            continue
        if token.text in ("(", "[", "{"):
            literals.append(False)
            opened.append(False)
        elif token.text in (")", "]", "}", ",") and literals:
            if literals[-1] and opened[-1]:
                puts.append((token.start, token.start, ")"))
                opened[-1] = False
            if token.text != ",":
                literals.pop()
                opened.pop()
        elif literals and literals[-1] and not opened[-1] and token.kind == "name" and _is_field(token_list, at):
            puts.append((token.start, token_list[at + 1].end, f'"{token.text}": dyn('))
            opened[-1] = True
            at += 1
        at += 1
    return _applied(source, puts)


def _head(found: list[Token], at: int) -> int:
    """Return the index of the brace of an object literal that begins at `at`; 0 if none does."""
    if found[at].text not in HEADS or (at and found[at - 1].text == "."):
        return 0
    end = at + 1
    while end + 1 < len(found) and found[end].text == "." and found[end + 1].kind == "name":
        end += 2
    return end if end < len(found) and found[end].text == "{" else 0


def _is_field(found: list[Token], at: int) -> bool:
    return at + 1 < len(found) and found[at + 1].text == ":"


def _applied(source: str, puts: list[tuple[int, int, str]]) -> str:
    pieces, done = [], 0
    for start, end, text in puts:
        pieces += [source[done:start], text]
        done = end
    return "".join([*pieces, source[done:]])
