"""Named formats, `format.uuid().validate(self.id)`.

Both `validate` and `format.named` answer with an optional, a type that functions cannot be declared with. To the
checker they answer with a list of none or one, and it is given `[?0]` behind each call, which makes an optional of it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from protocols.cel.libraries.addresses import CIDR, IP, URL
from protocols.cel.libraries.quantities import QUANTITY, STRING, VERSION, Function
from protocols.cel.text.source import Token, closing
from protocols.kube.formats import is_base64, is_date, is_date_time, is_uuid
from protocols.kube.names import (
    dns1035_faults,
    label_faults,
    label_value_faults,
    qualified_faults,
    subdomain_faults,
)
from protocols.kube.request_uri import uri_fault

FORMAT, FORMATS, FAULTS = "format", "list<format>", "list<list<string>>"
FIRST = "[?0]"
SHORT, UNDERSCORE = "existsone", len("exists")
"""`exists_one` before its underscore is put in, as long as the `existsOne` that was written."""
Check = Callable[[str], list[str]]
_PLACE = re.compile(r"<input>:(\d+):(\d+):")
_CARET = re.compile(r" \| \.*\^")


def _prefix(check: Check) -> Check:
    """Check the prefix of a name, which may end in a dash. As upstream, the last two characters become one."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _check(check: Callable[[str], bool], fault: str) -> Check:
    return lambda text: [] if check(text) else [fault]


def _uri(text: str) -> list[str]:
    fault = uri_fault(text)
    return [fault] if fault else []


CHECKS: dict[str, Check] = {
    "dns1123Label": label_faults,
    "dns1123Subdomain": subdomain_faults,
    "dns1035Label": dns1035_faults,
    "qualifiedName": qualified_faults,
    "dns1123LabelPrefix": _prefix(label_faults),
    "dns1123SubdomainPrefix": _prefix(subdomain_faults),
    "dns1035LabelPrefix": _prefix(dns1035_faults),
    "labelValue": label_value_faults,
    "uri": _uri,
    "uuid": _check(is_uuid, "does not match the UUID format"),
    "byte": _check(is_base64, "invalid base64"),
    "date": _check(is_date, "invalid date"),
    "datetime": _check(is_date_time, "invalid datetime"),
}


class Format(NamedTuple):
    """A named format as a value."""

    name: str


def _constant(name: str) -> Function:
    value = Format(name)
    return Function(f"format.{name}", f"format_{name}", FORMAT, (), lambda: value, member=False)


def _named(name: str) -> list[Format]:
    return [Format(name)] if name in CHECKS else []


def _validate(value: Format, text: str) -> list[list[str]]:
    faults = CHECKS[value.name](text)
    return [faults] if faults else []


def _validating(value: Format, text: str) -> int:
    """Return the price of a validation: that of a long pattern."""
    return 20 + len(text)


FUNCTIONS = (
    *map(_constant, CHECKS),
    Function("format.named", "format_named", FORMATS, (STRING,), _named, member=False),
    Function("validate", "format_validate", FAULTS, (FORMAT, STRING), _validate, price=_validating),
)


OPAQUE = {
    QUANTITY: "kubernetes.Quantity",
    VERSION: "kubernetes.Semver",
    IP: "net.IP",
    CIDR: "net.CIDR",
    URL: "kubernetes.URL",
    FORMAT: "kubernetes.NamedFormat",
}
"""Full names of our types."""


class EngineText(NamedTuple):
    """The text given to the engine in place of the user's."""

    written: str
    puts: Sequence[tuple[int, str]] = ()
    """Insertions in order: character of the user's text, and the inserted text."""

    @property
    def text(self) -> str:
        pieces, done = [], 0
        for place, put in self.puts:
            pieces += [self.written[done:place], put]
            done = place
        return "".join([*pieces, self.written[done:]])

    def as_written(self, errors: str) -> str:
        """Return the engine's errors with lines and columns of the user's text."""
        if not self.puts:
            return errors
        sources, lines, row, column = self.written.split("\n"), errors.split("\n"), 0, 0
        for number, line in enumerate(lines):
            if (match := _PLACE.search(line)) is not None:
                row = int(match[1])
                column = self._column(sum(len(source) + 1 for source in sources[: row - 1]), int(match[2]))
                lines[number] = f"{line[: match.start()]}<input>:{row}:{column}:{line[match.end() :]}"
            elif _CARET.fullmatch(line):
                lines[number] = f" | {'.' * (column - 1)}^"
            elif line.startswith(" | ") and 0 < row <= len(sources):
                lines[number] = f" | {sources[row - 1]}"
        return "\n".join(lines)

    def _column(self, start: int, column: int) -> int:
        """`start`: of the line."""
        for place, put in self.puts:
            if start <= place < start + column - 1:
                column -= min(len(put), start + column - 1 - place)
        return max(1, column)


def engine_text(source: str, found: list[Token], around: Mapping[str, tuple[str, str]] | None = None) -> EngineText:
    """Return the engine's text. `found` are the tokens; `around` is put before and behind variables of these names."""
    puts = []
    for at, token in enumerate(found):
        before = found[at - 1].text if at else ""
        if token.kind == "name" and before != "." and around and token.text in around:
            puts += [(token.start, around[token.text][0]), (token.end, around[token.text][1])]
        if token.text != SHORT == source[token.start : token.end]:  # renamed: a field may have that name
            puts.append((token.start + UNDERSCORE, "_"))
        if found[at + 1 : at + 2] and found[at + 1].text == "(" and _answers_with_optional(found, at):
            end = closing(found, at + 1)
            puts += [(found[end].end, FIRST)] if end > 0 else []
    return EngineText(source, tuple(sorted(puts, key=lambda put: put[0])))


def _answers_with_optional(found: list[Token], at: int) -> bool:
    before = [token.text for token in found[max(0, at - 2) : at]]
    if before[-1:] != ["."]:
        return False
    return found[at].text == "validate" or (found[at].text == "named" and before[0] == "format")
