"""Named formats in rules: what they say of a text, where faults are told to be, what they cost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.cel.libraries import named
from protocols.cel.text.source import tokens
from protocols.kinds.custom.definitions.structural import schema_faults
from protocols.kinds.custom.rule.evaluate import rule_causes
from protocols.kinds.custom.schema.node import Node
from protocols.kube.formats import CHECKS
from protocols.kube.names import DNS1035_TEXT, LABEL_TEXT, QUALIFIED_TEXT, SUBDOMAIN_TEXT, VALUE_TEXT

KEY_TEXT = QUALIFIED_TEXT.removeprefix("name part ")
NO_KEY = f"a valid label key {KEY_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def schema(rule: str, expression: str = "", limit: int = 1000) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string", "maxLength": limit}
    field["x-kubernetes-validations"] = [{"rule": rule, **({"messageExpression": expression} if expression else {})}]
    return {"type": "object", "properties": {"v": field}}


def refusal(rule: str) -> str:
    return "\n".join(cause.message for cause in schema_faults(schema(rule), "s"))


def held(rule: str, text: str, expression: str = "") -> list[str]:
    raw = schema(rule, expression)
    assert schema_faults(raw, "s") == []
    return [cause.message for cause in rule_causes({"v": text}, Node(raw))]


@pytest.mark.parametrize(
    ("name", "good", "bad", "fault"),
    [
        ("dns1123Label", "my-label", "My label", LABEL_TEXT),
        ("dns1123Label", "a" * 63, "a" * 64, "must be no more than 63 characters"),
        ("dns1123Label", "a", "a.b", "must not contain dots"),
        ("dns1123Subdomain", "a.b-c.d", "a..b", SUBDOMAIN_TEXT),
        ("dns1123Subdomain", "a" * 253, "a" * 254, "must be no more than 253 characters"),
        ("dns1035Label", "a1", "1a", DNS1035_TEXT),
        ("dns1123LabelPrefix", "my-", "-y-", LABEL_TEXT),
        ("dns1123SubdomainPrefix", "a.b-", ".b", SUBDOMAIN_TEXT),
        ("dns1035LabelPrefix", "a-", "-", DNS1035_TEXT),
        ("qualifiedName", "example.com/MyName", "a b", QUALIFIED_TEXT),
        ("qualifiedName", "my.name", "A/b", f"prefix part {SUBDOMAIN_TEXT}"),
        ("qualifiedName", "a/b", "/b", "prefix part must be non-empty"),
        ("qualifiedName", "a/b", "a/b/c", NO_KEY),
        ("labelValue", "", "-x", VALUE_TEXT),
        ("uri", "http://example.com/a?b=%zz", "example.com", 'parse "example.com": invalid URI for request'),
        ("uri", "/only/a/path", "", 'parse "": empty url'),
        ("uuid", "123E4567e89b-12d3-a456426614174000", "123e4567", "does not match the UUID format"),
        ("byte", "aGVsbG8=", "aGVsbG8", "invalid base64"),
        ("date", "2024-02-29", "2023-02-29", "invalid date"),
        ("datetime", "2021-01-01T00:00:00Z", "2021-01-01T24:00:00Z", "invalid datetime"),
    ],
)
def test_what_is_said_of_a_text(name: str, good: str, bad: str, fault: str) -> None:
    for way in (f"format.{name}()", f"format.named('{name}').value()"):
        rule, message = f"!{way}.validate(self).hasValue()", f"{way}.validate(self).value().join('; ')"
        assert held(rule, good, message) == []
        assert held(rule, bad, message) == [f'Invalid value: "{bad}": {fault}']


def test_several_faults_are_a_list() -> None:
    rule = "format.dns1123Label().validate(self).orValue([]).size() == 2"
    assert held(rule, "A" * 64) == []
    assert held("format.qualifiedName().validate(self).value()[0] == 'name part must be non-empty'", "a/") == []


def test_a_format_is_a_value() -> None:
    assert held("!format.named(self).hasValue()", "dns1123label") == []
    assert held("[format.uri(), format.uuid()].all(f, f.validate(self).hasValue())", "x") == []
    assert held("format.named(self).optFlatMap(f, f.validate('x')).orValue([]).size() == 1", "uuid") == []
    assert held("format.named(self) == optional.of(format.uri())", "uri") == []
    assert held("[format.date()].all(f, f != format.byte() && f.validate(self).hasValue())", "x") == []


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("format.nope()", "ERROR: <input>:1:1: undeclared reference to 'format'"),
        ("format.uri().validate(1).hasValue()", "<input>:1:22: found no matching overload for 'validate'"),
        ("format.uri() == 'uri'", "'(kubernetes.NamedFormat, string)'"),
        ("format.named(1).hasValue()", "<input>:1:13: found no matching overload for 'format.named'"),
        ("self.validate(self)", "applied to '(string, string)'"),
        ("!format.uri().validate(self).hasValue() && nope", "<input>:1:44: undeclared reference to 'nope'"),
    ],
)
def test_a_faulty_rule_is_quoted_as_written(rule: str, says: str) -> None:
    told = refusal(rule)
    assert says in told
    assert f" | {rule}\n" in told


def test_columns_behind_formats_are_their_authors() -> None:
    rule = "format.uri().validate(self).hasValue() &&\n format.named('x').hasValue() && nope"
    raw = schema(rule)
    raw["properties"]["v"]["x-kubernetes-validations"][0]["message"] = "no"
    [cause] = schema_faults(raw, "s")
    assert "<input>:2:34: undeclared reference to 'nope'" in cause.message
    assert f"\n | {rule.splitlines()[1]}\n | {'.' * 33}^" in cause.message


def test_cost_is_upstreams() -> None:
    """A tenth of the text's length, 32 times; the name of a format is looked up for one unit."""

    def cost(rule: str, limit: int) -> int:
        from protocols.cel.rules.check import Checker
        from protocols.cel.rules.values import CelType

        return Checker(CelType("string", limit), 1).check(rule, False)[1]

    # format.uri(), self, validate, hasValue
    assert cost("format.uri().validate(self).hasValue()", 1000) == 1 + 1 + 100 * 32 + 1
    assert cost("format.named('uri').hasValue()", 1) == 1 + 1
    assert refusal("!format.uri().validate(self).hasValue()") == ""
    [cause] = schema_faults(schema("!format.uri().validate(self).hasValue()", limit=4_000_000), "s")
    assert "estimated rule cost exceeds budget by factor of 1.006634x" in cause.message


PIECES = ("format", ".", "named", "validate", "(", ")", "'a'", "self", "uri", "&&", " ", "\n", "[?0]", "é", ",")


AROUND = {"self": ("optional.of(", ")")}


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_what_is_put_in_can_be_taken_out(source: str) -> None:
    made = named.engine_text(source, tokens(source), AROUND)
    assert len(made.text) == len(source) + sum(len(put) for _, put in made.puts)
    rest = made.text
    for place, put in made.puts:
        assert rest[place : place + len(put)] == put
        rest = rest[:place] + rest[place + len(put) :]
    assert rest == source


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.data())
def test_error_positions_are_those_of_the_source(source: str, data: st.DataObject) -> None:
    made = named.engine_text(source, tokens(source), AROUND)
    at = data.draw(st.integers(0, len(source)))
    moved = at + sum(len(put) for place, put in made.puts if place <= at)

    def place(text: str, offset: int) -> str:
        row = text.count("\n", 0, offset) + 1
        return f"<input>:{row}:{offset - (text.rfind(chr(10), 0, offset) + 1) + 1}:"

    assert made.as_written(f"ERROR: {place(made.text, moved)} no") == f"ERROR: {place(source, at)} no"


def test_an_optional_old_value_is_quoted_as_written() -> None:
    raw = schema("!oldSelf.hasValue() || oldSelf.value() == 3 || oldSelf == self")
    raw["properties"]["v"]["x-kubernetes-validations"][0]["optionalOldSelf"] = True
    [cause] = schema_faults(raw, "s")
    assert "<input>:1:40: found no matching overload for '_==_' applied to '(string, int)'" in cause.message
    assert " | !oldSelf.hasValue() || oldSelf.value() == 3 || oldSelf == self\n" in cause.message
    assert "optional.of" not in cause.message


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("self.matches('(')", "<input>:1:14: invalid matches argument\n | self.matches('(')\n | .............^"),
        ("duration('1 day') > duration('1h')", "<input>:1:10: invalid duration argument"),
        ("timestamp('2020') == timestamp(self)", "<input>:1:11: invalid timestamp argument"),
        ("self in ['a', 1]", "<input>:1:15: expected type 'string' but found 'int'"),
        ("{'a': 1, 'b': 2.0}.size() == 1", "<input>:1:15: expected type 'int' but found 'double'"),
        ("[['a'], [1]].size() == 1", "expected type 'list(string)' but found 'list(int)'"),
        ("format.uri().validate(self).hasValue() && self.matches('[')", "<input>:1:56: invalid matches argument"),
        ("'%d %s'.format([1, 'a']) == self", ""),
        ("[self, dyn(1)].size() == 2 && [[], ['a']].size() == 2", ""),
        ("self.matches(self) && duration('1h30m') > duration('0s')", ""),
    ],
)
def test_literals_that_mean_nothing(rule: str, says: str) -> None:
    told = refusal(rule)
    assert says in told if says else told == ""


NAMES = st.text(st.sampled_from("aZ09-._/ é\n"), max_size=70)


@given(NAMES | st.text(max_size=20))
def test_any_text_is_judged_by_any_format(text: str) -> None:
    for name, check in named.CHECKS.items():
        faults = check(text)
        assert all(fault.strip() and "\n" not in fault for fault in faults), name
        assert named._validate(named.Format(name), text) == ([faults] if faults else [])
    for known in CHECKS.values():
        assert known(text) in (True, False)
