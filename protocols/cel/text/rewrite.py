"""Rewrite a user's expression into the one that runs.

A domain that a device does not have must read as an empty map, which the engine cannot do; and the engine copies every
map it is given. So `device.attributes["dom"]` becomes a variable of its own, filled with that domain's entries, or
with those alone that the text names; `device.attributes[E]` becomes an optional lookup.
"""

import msgspec

from protocols.cel.text.source import Token, closing, plain_text

MAPS = ("attributes", "capacity")
FIELDS = ("driver", "allowMultipleAllocations")
PREFIX = "_np_"
VARIABLES = 16
"""Domains of one kind that get a variable; more are looked up."""


class Domain(msgspec.Struct):
    """One variable: which map, which domain, and which entries of it are enough (None = all)."""

    variable: str
    map: str
    domain: str
    ids: set[str] | None = msgspec.field(default_factory=set)


class Rewritten(msgspec.Struct, frozen=True):
    source: str
    domains: tuple[Domain, ...]
    maps: frozenset[str]
    """Those that are still used as a whole."""
    names: frozenset[str]
    """Used FIELDS. Any other use of `device` counts as a use of all."""


def variable(map_name: str, number: int) -> str:
    return f"{PREFIX}{map_name}_{number}"


def rewrite(source: str, found: list[Token]) -> Rewritten:
    """`found` are its tokens."""
    return _Rewriting(source, found).run()


class _Rewriting:
    def __init__(self, source: str, found: list[Token]) -> None:
        self._source = source
        self._tokens = found
        self._domains: dict[tuple[str, str], Domain] = {}
        self._maps: set[str] = set()
        self._names: set[str] = set()
        self._edits: list[tuple[int, int, str]] = []
        """(from, to, text) in characters of the source."""

    def run(self) -> Rewritten:
        for at, token in enumerate(self._tokens):
            if token.text == "device":
                self._field(at)
        return Rewritten(self._edited(), tuple(self._domains.values()), frozenset(self._maps), frozenset(self._names))

    def _texts(self, start: int, count: int) -> list[str]:
        return [token.text for token in self._tokens[max(start, 0) : start + count]]

    def _field(self, at: int) -> None:
        """`device.NAME` begins at token `at`."""
        name = "".join(self._texts(at + 2, 1))
        plain = self._texts(at + 1, 1) == ["."] and (at == 0 or self._texts(at - 1, 1) != ["."])
        if not plain or name not in (*MAPS, *FIELDS):
            self._maps.update(MAPS)
            self._names.update(FIELDS)
            return
        if name in FIELDS:
            self._names.add(name)
            return
        end = closing(self._tokens, at + 3) if self._texts(at + 3, 1) == ["["] else -1
        if end < 0 or self._texts(at + 4, 1) == ["?"]:
            self._maps.add(name)
        elif end == at + 5 and self._named(at, name):
            return
        else:
            self._looked_up(at + 3, end)
            self._maps.add(name)

    def _named(self, at: int, name: str) -> bool:
        """`device.NAME["domain"]`: True when it became a variable."""
        domain = plain_text(self._tokens[at + 4])
        if domain is None or PREFIX in self._source:
            return False
        known = self._domains.get((name, domain))
        if known is None:
            number = sum(kind == name for kind, _ in self._domains)
            if number == VARIABLES:
                return False
            known = self._domains[(name, domain)] = Domain(variable(name, number), name, domain)
        self._edits.append((self._tokens[at].start, self._tokens[at + 5].end, known.variable))
        entry = _entry(self._tokens[at + 6 : at + 11])
        known.ids = None if entry is None or known.ids is None else known.ids | {entry}
        return True

    def _looked_up(self, opening: int, end: int) -> None:
        first, last = self._tokens[opening], self._tokens[end]
        self._edits.append((first.start, first.end, "[?"))
        self._edits.append((last.start, last.end, "].orValue({})"))

    def _edited(self) -> str:
        parts, done = [], 0
        for start, end, text in sorted(self._edits):
            parts += [self._source[done:start], text]
            done = end
        return "".join([*parts, self._source[done:]])


def _entry(after: list[Token]) -> str | None:
    """The entry that `.id`, `.?id`, `["id"]` or `[?"id"]` names; None for any other use of the map."""
    found = [token for token in after if token.text != "?"]
    texts = [token.text for token in found[:3]]
    if texts[:1] == ["."] and len(found) > 1 and found[1].kind == "name" and texts[2:3] != ["("]:
        return found[1].text
    if texts[:1] == ["["] and texts[2:3] == ["]"]:
        return plain_text(found[1])
    return None
