"""A typed grammar of the CEL environment: expressions that nearly all pass the check, and hostile in what they combine.

A template has holes `{type}`; a binder is written `{type as @}`, and behind it `@` is a variable of the type that
`ELEMENTS` gives. What no template makes comes from the variables in scope and from literals.
"""

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

_HOLE = re.compile(r"\{([a-z]+(?:<[a-z<>]*>)?)(?: as (@[a-z:<>]*))?\}")
ANY = ("int", "string", "dyn", "bool", "double", "uint", "list<int>", "map<int>", "opt<int>", "opt<dyn>")
_COMPARED = ("int", "uint", "double", "string", "bytes", "timestamp", "duration")
_EQUAL = (*ANY, "bytes", "timestamp", "duration", "quantity", "semver", "ip", "cidr", "url", "list<dyn>", "map<dyn>")
HERE = Path(__file__).parent


def _read(name: str) -> dict[str, list[str]]:
    """Read lists by their heads: what is indented belongs to the line before that is not."""
    found: dict[str, list[str]] = {}
    head = ""
    for line in (HERE / name).read_text().splitlines():
        if line.startswith("    "):
            found[head].append(line[4:])
        elif not line.startswith("#"):
            head = line
            found[head] = []
    return found


LITERALS, TEMPLATES = _read("literals.txt"), _read("templates.txt")
TEMPLATES["bool"] += [f"{{{kind}}} {sign} {{{kind}}}" for kind in _COMPARED for sign in ("<", ">=")]
TEMPLATES["bool"] += [f"{{{kind}}} {sign} {{{kind}}}" for kind in _EQUAL for sign in ("==", "!=")]
TEMPLATES["dyn"] += [f"dyn({{{kind}}})" for kind in _EQUAL]
Scope = tuple[tuple[str, str], ...]
"""Names and types of variables."""


class Grammar:
    """Makes expressions of the environment with these variables and more templates."""

    def __init__(self, variables: Scope, more: Mapping[str, list[str]] | None = None) -> None:
        self._variables = variables
        self._templates = {kind: [*found, *(more or {}).get(kind, ())] for kind, found in TEMPLATES.items()}

    def make(self, chance: random.Random, kind: str, depth: int) -> str:
        return self._make(chance, kind, depth, self._variables)

    def _make(self, chance: random.Random, kind: str, depth: int, scope: Scope) -> str:
        if depth <= 0 or chance.random() < 0.15:
            return self._leaf(chance, kind, scope)
        return self._filled(chance, chance.choice(self._templates[kind]), depth - 1, scope)

    def _leaf(self, chance: random.Random, kind: str, scope: Scope) -> str:
        fitting = [name for name, each in scope if each == kind]
        if fitting and chance.random() < 0.7:
            return chance.choice(fitting)
        return chance.choice(LITERALS[kind])

    def _filled(self, chance: random.Random, template: str, depth: int, scope: Scope) -> str:
        made, at, names = [], 0, ""
        for hole in _HOLE.finditer(template):
            made.append(_put(template[at : hole.start()], names))
            at = hole.end()
            text = self._make(chance, hole[1], depth, scope)
            if hole[2] is None:
                made.append(text)
                continue
            kinds = hole[2].removeprefix("@").split(":")
            bound = tuple((f"v{len(scope) + number}", each) for number, each in enumerate(kinds))
            scope = (*scope, *bound)
            names = ", ".join(name for name, _ in bound)
            made.append(f"{names}, {text}, " if template[: hole.start()].endswith("cel.bind(") else text)
        made.append(_put(template[at:], names))
        return "".join(made)


def _put(text: str, names: str) -> str:
    return text.replace("{{", "{").replace("}}", "}").replace("@", names)


SELECTORS = Grammar((("device.driver", "string"), ("device.allowMultipleAllocations", "bool")), _read("selectors.txt"))
POLICIES = Grammar((("object", "dyn"), ("oldObject", "dyn"), ("namespaceObject", "dyn")), _read("policies.txt"))
RULES = Grammar(
    (
        *((f"self.{name}", kind) for name, kind in (("text", "string"), ("number", "int"), ("real", "double"))),
        *((f"self.{name}", kind) for name, kind in (("on", "bool"), ("list", "list<int>"), ("map", "map<int>"))),
        *((f"self.{name}", kind) for name, kind in (("any", "dyn"), ("when", "timestamp"), ("span", "duration"))),
        ("self.texts", "list<string>"),
        ("oldSelf.number", "int"),
    )
)


def mutation(chance: random.Random, depth: int) -> str:
    """An expression of a mutating policy."""
    value = POLICIES.make(chance, "dyn", depth)
    if chance.random() < 0.5:
        path = POLICIES.make(chance, "string", depth - 1)
        return f"[JSONPatch{{op: 'add', path: {path}, value: {value}}}]"
    return f"Object{{spec: Object.spec{{replicas: {POLICIES.make(chance, 'int', depth)}, any: {value}}}}}"


MAKERS: Mapping[str, Callable[[random.Random, int], str]] = {
    "selector": lambda chance, depth: SELECTORS.make(chance, "bool", depth),
    "policy": lambda chance, depth: POLICIES.make(chance, chance.choice(("bool", "bool", "dyn", "string")), depth),
    "mutation": mutation,
    "rule": lambda chance, depth: RULES.make(chance, "bool", depth),
}
