"""Expressions of admission policies: checked when a policy is written, evaluated for each request that it matches.

Objects are values of any type: their schemas are not known here. A policy's variables become nested `cel.bind`s around
each expression that uses them, so they have types, may fail unused, and are evaluated once in each expression.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from protocols.cel import environment
from protocols.cel.compiling import check_literals, compile_text, prepared, result_type
from protocols.cel.costs.estimate import cost_of
from protocols.cel.evaluation.running import CostBudget, Expression
from protocols.cel.evaluation.tree import tree_of
from protocols.cel.libraries import authorizing
from protocols.cel.libraries.named import EngineText
from protocols.cel.text.source import (
    TOO_COMPLEX,
    CompileError,
    Token,
    TooComplex,
    check_length,
    check_no_bindings,
    tokens,
)

if TYPE_CHECKING:
    from cel_expr_python import cel

COST = 10_000_000
"""Worst case of one expression in upstream's units, about as many as upstream lets a whole policy spend."""
CONDITIONS_COST = 2_500_000
"""Limit of all matchConditions of one policy or webhook: they do not share that of the validations."""
DYNAMIC = ("object", "oldObject", "request", "params", "namespaceObject")
REQUEST_FIELDS = (
    "kind", "resource", "subResource", "requestKind", "requestResource", "requestSubResource", "name", "namespace",
    "operation", "userInfo", "dryRun", "options",
)  # fmt: skip
_BOUND = "variables_"
"""Prefix of a variable's name in the engine's text, as long as `variables.`."""
RESULTS = {"BOOL": "bool", "STRING": "string", "NULL": "null_type", "MAP": "map", "LIST": "list"}


class PolicyScope(NamedTuple):
    """Names that an expression may use besides the object and the request."""

    params: bool = False
    authorizer: bool = True
    variables: tuple[tuple[str, str], ...] = ()
    """Names and expressions of variables, in the order of their declaration."""


@functools.cache
def _environment() -> "cel.Env":
    from cel_expr_python import cel

    text = cel.Type.STRING
    known = authorizing.types(cel)
    variables = dict.fromkeys(DYNAMIC, cel.Type.DYN)
    variables[authorizing.AUTHORIZER] = known[authorizing.Authorizer]
    variables[authorizing.REQUEST_RESOURCE] = known[authorizing.ResourceCheck]
    escape = cel.Overload("string_jsonpatch_escape_key", return_type=text, parameters=[text], is_member=False)
    more = [*authorizing.functions(cel), cel.FunctionDecl("jsonpatch.escapeKey", [escape])]
    return environment.environment("policies", variables, more)


VARIABLES = (*DYNAMIC, authorizing.AUTHORIZER, authorizing.REQUEST_RESOURCE)


class PolicyProgram:
    """A compiled expression: immutable and safe to share; it retains nothing of requests."""

    __slots__ = ("_expression", "serialized")

    def __init__(self, serialized: bytes) -> None:
        """Raises CompileError. `serialized`: the checked tree."""
        self.serialized = serialized
        self._expression = Expression(tree_of(serialized), VARIABLES)

    def value(self, data: Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        """Return the result as plain Python values. Raises EvaluationError."""
        return self._expression.plain([data.get(name) for name in VARIABLES], budget)


def check(source: str, scope: PolicyScope, results: tuple[str, ...] = ()) -> None:
    """Check an expression whose result has one of the types `results`; any type if empty. Raises CompileError."""
    text = _composed(source, scope)
    check_no_bindings(source)
    expression = _compile(text)
    serialized = expression.serialize()
    type_name = result_type(expression)
    kind = type_name.partition("<")[0]
    if results and kind != "DYN" and kind not in results:
        names = [RESULTS[result] for result in results]
        raise CompileError(
            f"must evaluate to {names[0]}" if len(names) == 1 else f"must evaluate to one of [{' '.join(names)}]"
        )
    if cost_of(serialized) > COST:
        raise TooComplex(TOO_COMPLEX)
    check_literals(serialized, text)


@functools.lru_cache(maxsize=2048)
def program(source: str, scope: PolicyScope) -> PolicyProgram:
    """Return the program of an expression. Raises CompileError."""
    return PolicyProgram(_compile(_composed(source, scope)).serialize())


def _compile(text: EngineText) -> "cel.Expression":
    try:
        return compile_text(_environment(), text)
    except CompileError as error:
        raise CompileError(str(error).replace(_BOUND, "variables.")) from None


def _composed(source: str, scope: PolicyScope) -> EngineText:
    """Return the engine's text: the expression within the variables that it uses. Raises CompileError."""
    texts = dict(scope.variables)
    body, used = _prepared(source, scope, list(texts))
    needed: dict[str, str] = {}
    waiting = sorted(used, key=list(texts).index, reverse=True)
    before = list(texts)
    while waiting:
        name = waiting.pop(0)
        if name in needed:
            continue
        engine_text, more = _prepared(texts[name].strip(), scope, before[: before.index(name)])
        needed[name] = _on_one_line(engine_text.text)
        waiting += more
    ordered = [name for name in texts if name in needed]
    prefix = "".join(f"cel.bind({_BOUND}{name}, ({needed[name]}), " for name in ordered)
    if not ordered:
        return body
    suffix = (len(body.written), "\n" + ")" * len(ordered))
    return EngineText(body.written, ((0, prefix), *body.puts, suffix))


def _on_one_line(text: str) -> str:
    """Return the text of a variable without line breaks; strings have them as escapes, raw ones keep theirs."""
    pieces, done = [], 0
    for token in tokens(text):
        is_raw = token.kind == "text" and "r" in token.text.partition(token.text[-1])[0].lower()
        written = token.text if is_raw else token.text.replace("\n", "\\n")
        pieces += [text[done : token.start].replace("\n", " "), written]
        done = token.end
    return "".join([*pieces, text[done:].replace("\n", " ")])


def _prepared(source: str, scope: PolicyScope, declared: list[str]) -> tuple[EngineText, set[str]]:
    """Return the engine's text of one expression, and the variables it uses. Raises CompileError."""
    check_length(source)
    token_list = tokens(source)
    characters, used = list(_without_comments(source, token_list)), set()
    for at, token in enumerate(token_list):
        if token.kind != "name" or (at and token_list[at - 1].text in (".", ".?")):
            continue
        if token.text == "variables":
            used.add(_variable(token_list, at, declared))
            characters[token_list[at + 1].start] = "_"
            _close(characters, token.end, token_list[at + 2].start)
        elif token.text.startswith(_BOUND) or token.text in _hidden(scope):
            raise CompileError(f"compilation failed: undeclared reference to '{token.text}' (in container '')")
        elif token.text == "request" and _unknown_field(token_list, at):
            raise CompileError(f"compilation failed: undefined field '{token_list[at + 2].text}'")
    return prepared("".join(characters)), used


def _hidden(scope: PolicyScope) -> Iterable[str]:
    if not scope.params:
        yield "params"
    if not scope.authorizer:
        yield "authorizer"


def _variable(found: list[Token], at: int, declared: list[str]) -> str:
    after = found[at + 1 : at + 3]
    if len(after) < 2 or after[0].text != "." or after[1].kind != "name":
        raise CompileError("compilation failed: variables are used as variables.NAME only")
    if after[1].text not in declared:
        raise CompileError(f"compilation failed: undefined field '{after[1].text}'")
    return after[1].text


def _unknown_field(found: list[Token], at: int) -> bool:
    after = found[at + 1 : at + 3]
    return len(after) == 2 and after[0].text == "." and after[1].kind == "name" and after[1].text not in REQUEST_FIELDS


def _close(characters: list[str], begin: int, end: int) -> None:
    """Remove what is between `variables` and the name, except for the one character that joins them."""
    for index in range(begin, end):
        if characters[index] != "_":
            characters[index] = ""


def _without_comments(source: str, found: list[Token]) -> str:
    """Return the text with spaces in place of comments: what is put behind an expression must not be in one."""
    pieces, done = [], 0
    for token in found:
        pieces += ["".join("\n" if char == "\n" else " " for char in source[done : token.start]), token.text]
        done = token.end
    return "".join(pieces)
