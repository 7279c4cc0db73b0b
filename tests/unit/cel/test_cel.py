"""Selectors in CEL: what they mean, what is refused before it runs, and what devices do to them that lack a part."""

import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.cel.libraries.quantities import normalized, parse_version
from protocols.cel.programs import compile_program, compiled
from protocols.cel.text.source import CompileError, EvaluationError, TooComplex, TooLong
from protocols.dra.decode import device_of
from protocols.dra.types import Device
from tests.support.dra_objects import device

D = "dra.example.com"
ERROR, REFUSED = "error: ", "refused: "


def made(attrs: dict[str, Any] | None = None, capacity: dict[str, str] | None = None, driver: str = D) -> Device:
    return device_of(device("x", attrs, capacity), driver)


def outcome(expression: str, attrs: dict[str, Any] | None = None, capacity: dict[str, str] | None = None) -> str:
    """`true`, `false`, or what is wrong."""
    try:
        program = compiled(expression)
    except CompileError as error:
        return f"{REFUSED}{error}"
    try:
        return str(program.matches(D, made(attrs, capacity))).lower()
    except EvaluationError as error:
        return f"{ERROR}{error}"


NAME = f'device.attributes["{D}"].name'
MASKED = 'cidr("::/0").masked() == cidr("::/0")'
MEMORY = f'device.capacity["{D}"].name'
TABLE: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("true", {}, {}, "true"),
    ("cel.bind(x, 1 / 0, true) && cel.bind(x, [][0], x == 1 || true)", {}, {}, "true"),
    ("false", {}, {}, "false"),
    ("?!", {}, {}, f"{REFUSED}compilation failed: ERROR: <input>:1:1: Syntax error"),
    ("1", {}, {}, f"{REFUSED}must evaluate to bool or the unknown type, not int"),
    ('device.attributes["no"].x.isGreaterThan(quantity("0"))', {}, {}, f"{ERROR}no such key: x"),
    ('"no-such-domain" in device.attributes', {}, {}, "false"),
    (f'"{D}" in device.attributes', {"a": True}, {}, "true"),
    ('device.driver == ""', {}, {}, "false"),
    (f'device.driver == "{D}"', {}, {}, "true"),
    (NAME, {"name": True}, {}, "true"),
    (f'device.attributes["{D}"]["name"]', {"name": True}, {}, "true"),
    (f'cel.bind(dra, device.attributes["{D}"], dra.name)', {"name": True}, {}, "true"),
    ('device.attributes["other.example.com"].name', {"other.example.com/name": True}, {}, "true"),
    (f"{NAME} > 0", {"name": 1}, {}, "true"),
    (f'{NAME} == "fish"', {"name": "fish"}, {}, "true"),
    (f'{NAME}.isGreaterThan(semver("0.0.1"))', {"name": "v:1.0.0"}, {}, "true"),
    (f'{NAME}.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)', {"name": "v:1.0.0"}, {}, "true"),
    (f'{MEMORY}.isGreaterThan(quantity("1Ki"))', {}, {"name": "1Mi"}, "true"),
    (f'!("name" in device.capacity["{D}"]) || {MEMORY}.isGreaterThan(quantity("1Ki"))', {}, {}, "true"),
    ('has(device.attributes["nope.example.com"].x)', {}, {}, "false"),
    ('device.attributes["nope.example.com"].?x.orValue(7) == 7', {}, {}, "true"),
    ('device.attributes["nope.example.com"] == {}', {}, {}, "true"),
    ('size(device.attributes["nope.example.com"]) == 0', {}, {}, "true"),
    (f'device.attributes.exists_one(x, x == "{D}")', {"a": 1}, {}, "true"),
    (f'device.attributes["{D}"].exists_one(x, x == "services")', {"services": "a"}, {}, "true"),
    (f'{NAME}.split("example").size() >= 2', {"name": "some_example_value"}, {}, "true"),
    (f'{NAME}.matches("[^a]?sym")', {"name": "asymetric"}, {}, "true"),
    ("device.allowMultipleAllocations == false", {}, {}, "true"),
    (f"!format.dns1123Label().validate({NAME}).hasValue()", {"name": "a-b"}, {}, "true"),
    (f"format.named('uuid').value().validate({NAME}).value()[0]  == 'x'", {"name": "a-b"}, {}, "false"),
    (f"format.uri().validate({NAME}).optMap(f, f.size() == 1).orValue(false)", {"name": "a-b"}, {}, "true"),
    (f"isIP({NAME}) && cidr('10.0.0.0/8').containsIP(ip({NAME}))", {"name": "10.1.2.3"}, {}, "true"),
    (f"{NAME}.find('[0-9]+') == '12' && {NAME}.indexOf('1') == 1", {"name": "a12"}, {}, "true"),
    ("[1, 2].sum() == 3 && size(device.driver) > 1.5", {}, {}, "true"),
    (f'{NAME}.matches("(")', {}, {}, f"{REFUSED}compilation failed: ERROR: <input>:1:51: invalid matches argument"),
    ("1 in [1, 'a']", {}, {}, f"{REFUSED}compilation failed: ERROR: <input>:1:10: expected type 'int' but found 'str"),
    ("format.uri().validate('x').hasValue() && no", {}, {}, f"{REFUSED}compilation failed: ERROR: <input>:1:42"),
    ("device.foo == 1", {}, {}, f"{REFUSED}compilation failed: ERROR: <input>:1:7: undeclared reference"),
    ("device.attributes[true].someBoolean", {}, {}, f"{REFUSED}compilation failed: ERROR: <input>:1:18: found no"),
    ('quantity("1") + quantity("2") == quantity("3")', {}, {}, f"{REFUSED}compilation failed: ERROR: <input>:1:15"),
    ('quantity("1k") == quantity("1000")', {}, {}, "true"),
    ('quantity("200K") == quantity("1")', {}, {}, f"{ERROR}quantities must match the regular expression"),
    ('quantity("50k").add(20).sub(quantity("100k")).sub(-50000) == quantity("20")', {}, {}, "true"),
    ('semver("1.0.0-alpha").isLessThan(semver("1.0.0"))', {}, {}, "true"),
    ('semver("1.2.3") == semver("1.2.3+build5")', {}, {}, "true"),
    ('device.attributes["a"+"b"].x == 1', {"ab/x": 1}, {}, "true"),
    ('"device.attributes[\\"zz\\"]" == "x"', {}, {}, "false"),
    ('device.attributes[device.driver].name == "fish"', {"name": "fish"}, {}, "true"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "attrs", "capacity", "wanted"), TABLE)
def test_the_table_of_selectors(expression: str, attrs: Any, capacity: Any, wanted: str) -> None:
    assert outcome(expression, attrs, capacity).startswith(wanted)


@pytest.mark.scenario("S46")
@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('device.attributes["no"].x == 1', f"{ERROR}no such key: x"),
        ('has(device.attributes["no"].x)', "false"),
        ('"x" in device.attributes["no"]', "false"),
        ('device.attributes["no"] == {}', "true"),
        ('size(device.attributes["no"]) == 0', "true"),
        ('device.attributes["no"].?x.orValue("d") == "d"', "true"),
        ('device.attributes[?"no"].?x.orValue("d") == "d"', "true"),
        ('device.attributes.all(domain, domain != "no")', "true"),
        ('device.attributes["n" + "o"] == {}', "true"),
        ('device.capacity["no"] == {}', "true"),
        ("device.attributes['no'].exists(x, true)", "false"),
    ],
)
def test_a_missing_domain(expression: str, wanted: str) -> None:
    assert outcome(expression, {"here": 1}, {"here": "1"}) == wanted


@pytest.mark.scenario("S47")
@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("9223372036854775807 + 1 > 0", f"{ERROR}integer overflow"),
        ("1 / 0 == 1", f"{ERROR}division by zero"),
        (f"{NAME} == 1 || true", "true"),
        (f"true || {NAME} == 1", "true"),
        (f"{NAME} == 1 && false", "false"),
        (f"{NAME} == 1 || false", f"{ERROR}no such key: name"),
        (f'device.attributes["{D}"].number == "1"', "false"),
        (f'device.attributes["{D}"].number', f"{ERROR}CEL result of type int could not be converted to bool"),
        ("[1, 2].exists(x, x / 0 == 1 || x == 2)", "true"),
        ("false ? 1 / 0 == 1 : true", "true"),
        (f"lists.range(9990).all(x, {' && '.join([MASKED] * 8)})",
         f"{ERROR}operation cancelled: actual cost limit exceeded"),
    ],
)  # fmt: skip
def test_errors_are_values_until_somebody_needs_them(expression: str, wanted: str) -> None:
    assert outcome(expression, {"number": 1}).startswith(wanted)


def nest(levels: int, body: str) -> str:
    for number in range(levels):
        body = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x{number}, {body})"
    return body


def bound(times: int, first: str, step: str, last: str) -> str:
    text = last.replace("@", f"a{times}")
    for number in range(times, 0, -1):
        text = f"cel.bind(a{number}, {step.replace('@', f'a{number - 1}')}, {text})"
    return f"cel.bind(a0, {first}, {text})"


LONG = '"' + "x" * 1000 + '"'
HUNDRED = "[" + ", ".join(["1"] * 100) + "]"


@pytest.mark.scenario("S48")
@pytest.mark.parametrize(
    "expression",
    [
        nest(7, "'1'.matches('[0-9]*')"),
        bound(20, LONG, "@ + @", "size(@) > 0"),
        bound(20, "[1]", "[@, @]", "@ == @"),
        '"aaaaaaaaaa"' + '.replace("a", "aaaaaaaaaa")' * 6 + ".size() > 0",
        "optional.of(1)" + ".optMap(x, x)" * 20 + ".hasValue()",
        "optional.of(1)" + ".optFlatMap(x, optional.of(x))" * 14 + ".hasValue()",
        "lists.range(100000000).size() == 1",
        'lists.range(device.attributes["d"].size() * 10000000).size() == 1',
        f'{HUNDRED}.all(i, {HUNDRED}.all(j, "{"x" * 8000}".split("").size() > 0))',
        '"a".matches("\\\\pL{1000}")',
        f'"a".matches("{chr(92) * 2}pL{chr(92) * 2}pL" + {LONG})',
        "true" + " && 1 == 1" * 900,
    ],
)  # fmt: skip
def test_hostile_expressions_never_run(expression: str) -> None:
    assert len(expression) <= 10240
    with pytest.raises(TooComplex, match="too complex, exceeds cost limit"):
        compile_program(expression)


@pytest.mark.scenario("S48")
@pytest.mark.parametrize(
    "expression",
    ["!" * 5000 + "true", " || ".join(["true"] * 1000), f'"{"a" * 4000}b".matches("(a+)+$") == false', nest(3, "true")],
)
def test_large_expressions_are_not_hostile(expression: str) -> None:
    assert outcome(expression) == "true"


@pytest.mark.scenario("S48")
@pytest.mark.parametrize(
    "expression",
    ["(" * 40 + "true" + ")" * 40, "[" * 40 + "]" * 40 + " == []", "+".join(["1"] * 40) + " > 0", "-" * 9 + "(" * 33],
)
def test_nesting_is_bounded_with_an_error(expression: str) -> None:
    with pytest.raises(CompileError, match="expression too deeply nested"):
        compile_program(expression)


@pytest.mark.parametrize("text", ["true\0", "'\ud800' == ''"])
def test_no_text(text: str) -> None:
    with pytest.raises(CompileError):
        compiled(text)


def test_length_is_in_bytes() -> None:
    assert outcome(f'"{"x" * 10231}" != ""'[:10240].ljust(10240)) == "true"
    for text in ("x" * 10241, "ä" * 5121):
        with pytest.raises(TooLong, match="may not be more than 10240 bytes"):
            compiled(text)


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        (f'device.driver == "{D}"', 4),
        ('device.attributes["d"].name', 4),
        ('device.attributes["d"].name == "fish"', 5),
        ('device.capacity["d"].name.isGreaterThan(quantity("1Ki"))', 7),
        ('cel.bind(dra, device.attributes["d"], dra.name)', 15),
    ],
)
def test_costs_of_common_expressions_are_upstreams(expression: str, cost: int) -> None:
    assert compile_program(expression).cost == cost


@pytest.mark.scenario("S49")
@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('quantity("50M").isLessThan(quantity("50Mi"))', "true"),
        ('quantity("1.5Gi") == quantity("1536Mi")', "true"),
        ('quantity("0.1").add(quantity("0.2")) == quantity("0.3")', "true"),
        ('quantity("1n").isGreaterThan(quantity("0"))', "true"),
        ('quantity("1500m").isInteger()', "false"),
        ('quantity("1500m").asInteger() == 1', f"{ERROR}cannot convert value to integer"),
        ('quantity("2k").asInteger() == 2000', "true"),
        ('sign(quantity("-1")) == -1', "true"),
        ('quantity("1").asApproximateFloat() == 1.0', "true"),
        ('quantity("1").compareTo(quantity("2")) == -1', "true"),
        ('isQuantity("1 Gi")', "false"),
        ('quantity("1").compareTo(semver("1.0.0")) == 0', f"{REFUSED}compilation failed"),
        (f'{NAME}.compareTo(quantity("1")) == 0', f"{ERROR}no such overload"),
        ('semver("v1.0")  == semver("1.0.0")', f"{ERROR}invalid semantic version"),
        ('semver("v1.0", true) == semver("1.0.0")', "true"),
        ('semver("1.10.0").isGreaterThan(semver("1.9.9"))', "true"),
        ('semver("1.0.0-2").isLessThan(semver("1.0.0-10"))', "true"),
        ('semver("1.0.0-1").isLessThan(semver("1.0.0-a"))', "true"),
        ('semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3', "true"),
        ("isSemver('1.0.0-a..b')", "false"),
        ("isSemver('01.0.0') || !isSemver('01.0.0', true)", "false"),
    ],
)
def test_quantities_and_versions(expression: str, wanted: str) -> None:
    assert outcome(expression, {"name": "v:1.0.0"}).startswith(wanted)


@pytest.mark.scenario("S50")
def test_one_program_in_four_threads() -> None:
    program = compiled(f"{NAME} % 3 == 0")
    wrong: list[int] = []

    def run() -> None:
        for number in range(2500):
            if program.matches(D, made({"name": number})) != (number % 3 == 0):
                wrong.append(number)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_compiled_same_text_gives_one_program_and_an_error_each_time() -> None:
    for _ in range(2):
        with pytest.raises(CompileError):
            compiled("1")
    assert compiled("false") is compiled("false")


def test_the_engine_is_not_imported_until_somebody_asks() -> None:
    code = (
        "import sys, protocols.cel.programs, protocols.dra.tracker.tracker, protocols.dra.tracker.feed\n"
        "assert not any(name.startswith('cel_expr') for name in sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


values = st.sampled_from([1, 2, True, False, "1", "a", "v:1.0.0"])
keys = st.sampled_from(["a", "b", f"{D}/a", "e.example.com/a", "e.example.com/b"])
FORMS = (
    'device.attributes["%s"]',
    "device.attributes['%s']",
    'device.attributes["%s" + ""]',
    'device . attributes [ "%s" ]',
)
USES = ("%s.a == 1", '%s["a"] == 1', "has(%s.a)", '"a" in %s', "%s.?a.orValue(2) == 2", "%s.exists(k, k == 'b')",
        "size(%s) == 1", "cel.bind(m, %s, m.a == true)")  # fmt: skip


@given(st.dictionaries(keys, values, max_size=4), st.sampled_from([D, "e.example.com", "no"]), st.sampled_from(USES))
def test_however_a_domain_is_named_the_answer_is_the_same(attrs: dict[str, Any], domain: str, use: str) -> None:
    answers = {outcome(use.replace("%s", form.replace("%s", domain)), attrs) for form in FORMS}
    assert len(answers) == 1, answers


numbers = st.integers(0, 20)
versions = st.builds(
    lambda a, b, c, pre: f"{a}.{b}.{c}" + (f"-{pre}" if pre else ""),
    numbers, numbers, numbers, st.sampled_from(["", "a", "a.1", "1", "1.a", "rc.10", "rc.9"]),
)  # fmt: skip


@given(versions, versions, versions)
def test_versions_are_ordered(one: str, two: str, three: str) -> None:
    first, second, third = sorted(map(parse_version, (one, two, three)))
    assert first <= second <= third
    assert parse_version(normalized(one)) == parse_version(one)
    assert (
        outcome(f'semver("{one}").isLessThan(semver("{two}"))') == str(parse_version(one) < parse_version(two)).lower()
    )


@given(st.text(max_size=60))
def test_no_text_is_a_surprise(text: str) -> None:
    assert outcome(text).startswith((REFUSED, ERROR, "true", "false"))
