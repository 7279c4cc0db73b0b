"""Label and field selectors: parsed once, matched often. Parsing raises SelectorInvalid; matching never fails."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from protocols.kube.errors import SelectorInvalid
from protocols.kube.names import label_value_fault, qualified_name_fault

EXISTS, ABSENT, IN, NOT_IN, ABOVE, BELOW = "exists", "!", "in", "notin", "gt", "lt"

SELECTOR_BYTES = 64 * 1024
"""Characters of a label or field selector: clients that name a thousand objects stay below."""
LABEL_TERMS = 5_000
"""Requirements and values of a label selector together."""
FIELD_TERMS = 500
"""Terms of a field selector."""

_TOKEN = re.compile(r"\s*(?:(==|!=|[=!,()<>])|([^\s=!,()<>]+))")
_OBJECT_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": ABSENT, "Gt": ABOVE, "Lt": BELOW}
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)


class Requirement(msgspec.Struct, frozen=True):
    """One term of a label selector. `values` has one element for gt and lt, none for exists and absent."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in (EXISTS, ABSENT):
            return (value is not None) == (self.operator == EXISTS)
        if self.operator in (IN, NOT_IN):
            return (value in self.values) == (self.operator == IN)
        return value is not None and _compare(value, self.operator, self.values[0])


class LabelSelector(msgspec.Struct, frozen=True):
    """A label selector: all requirements must hold; an empty one matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    def matcher(self) -> Callable[[Mapping[str, str]], bool]:
        """Return `matches` for many objects: each costs its own labels, not the length of the selector.

        A requirement that an object without the label meets is asked only about labels the object has.
        """
        present: dict[str, list[Requirement]] = {}
        absent: dict[str, list[Requirement]] = {}
        for each in dict.fromkeys(self.requirements):
            (absent if each.operator in (ABSENT, NOT_IN) else present).setdefault(each.key, []).append(each)
        needed = {key: _merged(requirements) for key, requirements in present.items()}
        barred = {key: _merged(requirements) for key, requirements in absent.items()}

        def matches(labels: Mapping[str, str]) -> bool:
            if len(needed) > len(labels):
                return False
            for key, tests in needed.items():
                if key not in labels or not tests(labels[key]):
                    return False
            if not barred:
                return True
            return all(barred[key](value) for key, value in labels.items() if key in barred)

        return matches

    def __bool__(self) -> bool:
        return bool(self.requirements)


def _merged(requirements: list[Requirement]) -> Callable[[str], bool]:
    """Return one test for all requirements on one key; its argument is the value of a label that exists."""
    banned: set[str] = set()
    allowed: set[str] | None = None
    compared = [term for term in requirements if term.operator in (ABOVE, BELOW)]
    never = any(term.operator == ABSENT for term in requirements)
    for each in requirements:
        if each.operator == IN:
            allowed = set(each.values) if allowed is None else allowed & set(each.values)
        elif each.operator == NOT_IN:
            banned.update(each.values)
    above = max((int(term.values[0]) for term in compared if term.operator == ABOVE), default=None)
    below = min((int(term.values[0]) for term in compared if term.operator == BELOW), default=None)

    def test(value: str) -> bool:
        if never or type(value) is not str or value in banned or (allowed is not None and value not in allowed):
            return False
        return not compared or _between(value, above, below)

    return test


def _between(value: str, above: int | None, below: int | None) -> bool:
    if not _INTEGER.fullmatch(value):
        return False
    number = int(value)
    return (above is None or number > above) and (below is None or number < below)


class FieldTerm(msgspec.Struct, frozen=True):
    """One term of a field selector: `field=value`, or `field!=value` if not `equal`."""

    field: str
    equal: bool
    value: str


class FieldSelector(msgspec.Struct, frozen=True):
    """A field selector: all terms must hold; a missing field counts as the empty string."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, value_of: Callable[[str], str]) -> bool:
        return all((value_of(term.field) == term.value) == term.equal for term in self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)


def _compare(value: str, operator: str, bound: str) -> bool:
    if not _INTEGER.fullmatch(value):
        return False
    return int(value) > int(bound) if operator == ABOVE else int(value) < int(bound)


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Return a checked requirement. Raises SelectorInvalid."""
    fault = qualified_name_fault(key)
    if fault:
        raise SelectorInvalid(f"label key {key!r}: {fault}")
    if operator in (ABOVE, BELOW):
        if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
            raise SelectorInvalid(f"label selector {key!r}: '>' and '<' need exactly one integer")
    elif operator in (IN, NOT_IN) and not values:
        raise SelectorInvalid(f"label selector {key!r}: in and notin need at least one value")
    elif operator in (EXISTS, ABSENT) and values:
        raise SelectorInvalid(f"label selector {key!r}: exists and not-exists take no value")
    for value in values:
        if fault := label_value_fault(value):
            raise SelectorInvalid(f"label value {value!r} of {key!r}: {fault}")
    return Requirement(key, operator, values)


def check_bounds(name: str, text: str, terms: int) -> None:
    """Raise SelectorInvalid for a selector that is too long to be read; `name` is the query parameter's."""
    if len(text) > SELECTOR_BYTES:
        raise SelectorInvalid(f"{name}: must have at most {SELECTOR_BYTES} characters, has {len(text)}")
    count = text.count(",") + 1
    if count > terms:
        raise SelectorInvalid(f"{name}: must have at most {terms} terms and values, has {count}")


def parse_label_selector(text: str) -> LabelSelector:
    """Read the query form: `a=b,!c,d in (e,f),g>1`."""
    check_bounds("labelSelector", text, LABEL_TERMS)
    return _LabelParser(text).parse()


def label_selector_from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Read the object form with matchLabels and matchExpressions (also the terms of node affinity)."""
    fields = selector or {}
    exact = [requirement(key, IN, (value,)) for key, value in (fields.get("matchLabels") or {}).items()]
    return LabelSelector((*exact, *map(_from_expression, fields.get("matchExpressions") or ())))


def selector_text(selector: Mapping[str, Any]) -> str:
    """Return the query form of an object form, or of plain labels, as kube-apiserver writes it."""
    if any(isinstance(value, str) for value in selector.values()):
        selector = {"matchLabels": selector}
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = map(_from_expression, selector.get("matchExpressions") or ())
    terms += [(expression.key, _term_text(expression)) for expression in expressions]
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def _term_text(term: Requirement) -> str:
    if term.operator in (EXISTS, ABSENT):
        return term.key if term.operator == EXISTS else f"!{term.key}"
    return f"{term.key} {term.operator} ({','.join(sorted(term.values))})"


def _from_expression(expression: Mapping[str, Any]) -> Requirement:
    operator = _OBJECT_OPERATORS.get(str(expression.get("operator")))
    if operator is None:
        raise SelectorInvalid(f"label selector operator {expression.get('operator')!r} is not known")
    return requirement(str(expression.get("key") or ""), operator, tuple(expression.get("values") or ()))


class _LabelParser:
    """Recursive descent over tokens; the first character distinguishes symbols from words."""

    def __init__(self, text: str) -> None:
        self._tokens = [symbol or word for symbol, word in _TOKEN.findall(text)]
        self._at = 0

    def parse(self) -> LabelSelector:
        if not self._tokens:
            return LabelSelector()
        requirements = [self._requirement()]
        while self._at < len(self._tokens):
            self._expect(",")
            requirements.append(self._requirement())
        return LabelSelector(tuple(requirements))

    def _requirement(self) -> Requirement:
        if self._take_if("!"):
            return requirement(self._word("identifier"), ABSENT, ())
        key = self._word("identifier")
        operator = self._peek()
        if operator in ("", ","):
            return requirement(key, EXISTS, ())
        self._at += 1
        if operator in ("in", "notin"):
            return requirement(key, operator, self._values())
        if operator in ("=", "==", "!="):
            return requirement(key, NOT_IN if operator == "!=" else IN, (self._optional_word(),))
        if operator in (">", "<"):
            return requirement(key, ABOVE if operator == ">" else BELOW, (self._word("an integer"),))
        raise self._unexpected(operator, "'in', 'notin', '=', '==', '!=', '<' or '>'")

    def _values(self) -> tuple[str, ...]:
        self._expect("(")
        values = {self._optional_word()}
        while self._take_if(","):
            values.add(self._optional_word())
        self._expect(")")
        return tuple(sorted(values))

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take_if(self, symbol: str) -> bool:
        if self._peek() != symbol:
            return False
        self._at += 1
        return True

    def _expect(self, symbol: str) -> None:
        if not self._take_if(symbol):
            raise self._unexpected(self._peek(), f"{symbol!r}")

    def _word(self, what: str) -> str:
        word = self._optional_word()
        if not word:
            raise self._unexpected(self._peek(), what)
        return word

    def _optional_word(self) -> str:
        token = self._peek()
        if not token or token[0] in "=!,()<>":
            return ""
        self._at += 1
        return token

    def _unexpected(self, token: str, wanted: str) -> SelectorInvalid:
        return SelectorInvalid(f"found '{token:.200}', expected: {wanted}")


def parse_field_selector(text: str) -> FieldSelector:
    """Read the query form: `metadata.name=a,status.phase!=Running`; a backslash escapes itself, comma and equals."""
    check_bounds("fieldSelector", text, FIELD_TERMS)
    return FieldSelector(tuple(_field_term(text, part) for part in _split_unescaped(text) if part))


def _split_unescaped(text: str) -> list[str]:
    parts, start, escaped = [], 0, False
    for at, character in enumerate(text):
        if character == "," and not escaped:
            parts.append(text[start:at])
            start = at + 1
        escaped = character == "\\" and not escaped
    return [*parts, text[start:]]


def _field_term(text: str, part: str) -> FieldTerm:
    match = re.fullmatch(r"(?P<field>[^=!\\]+)(?P<operator>==|!=|=)(?P<value>(?s:.)*)", part)
    if match is None:
        raise SelectorInvalid(f"invalid selector: '{text:.200}'; can't understand '{part:.200}'")
    return FieldTerm(match["field"], match["operator"] != "!=", _unescape(match["value"]))


def _unescape(value: str) -> str:
    characters, at = [], 0
    while at < len(value):
        character = value[at]
        if character == "\\":
            at += 1
            if value[at : at + 1] not in ("\\", ",", "="):
                raise SelectorInvalid(
                    f"invalid field selector value {value[:200]!r}: '\\' escapes only '\\', ',' and '='"
                )
            character = value[at]
        elif character == "=":
            raise SelectorInvalid(
                f"invalid field selector value {value[:200]!r}: '=' in a value needs a '\\' before it"
            )
        characters.append(character)
        at += 1
    return "".join(characters)


Labels = Mapping[str, str]


def selects(selector: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """Return True if a term of a NodeSelector matches; one without terms selects nothing."""
    return any(term_matches(term, name, labels) for term in selector.get("nodeSelectorTerms") or ())


def term_matches(term: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """Return True if a NodeSelectorTerm matches; an empty one matches nothing, as upstream."""
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    return _all(by_label, labels) and _all(by_field, {"metadata.name": name})


def _all(demands: Iterable[Mapping[str, Any]], labels: Labels) -> bool:
    return all(_matches(demand, labels) for demand in demands)


def _matches(demand: Mapping[str, Any], labels: Labels) -> bool:
    key, values = str(demand.get("key") or ""), demand.get("values") or []
    actual = labels.get(key)
    match demand.get("operator"):
        case "In":
            return actual in values
        case "NotIn":
            return actual not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt" as operator if actual is not None and values and _INTEGER.fullmatch(values[0]):
            return _compare(actual, _OBJECT_OPERATORS[operator], values[0])
    return False
