"""The evaluator: every expression ends within its budget, with a declared error or a value."""

import subprocess
import sys
import time
from typing import Any

import pytest

from protocols.cel import policies
from protocols.cel.costs.estimate import LIMIT, cost_of
from protocols.cel.evaluation import running
from protocols.cel.evaluation.running import CALL_LIMIT, CostBudget
from protocols.cel.evaluation.simple import is_short
from protocols.cel.functions import registry
from protocols.cel.functions.values import EXCEEDED
from protocols.cel.libraries import authorizing
from protocols.cel.policies import PolicyScope
from protocols.cel.programs import SelectorProgram, compile_program
from protocols.cel.rules import check as rules
from protocols.cel.text.source import CompileError, EvaluationError
from tests.unit.cel.test_cel import MASKED, D, made, outcome

A = f'device.attributes["{D}"]'
SECONDS = 2
"""Most that any admitted expression may take, with a margin of ten on a busy machine."""


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (f"[{A}.?zz[0]].sum() == 1", "error: no such overload: sum"),
        (f"[{A}.?zz[0]].size() == 1", "true"),
        (f"{A}.?zz[0]", "error: CEL result of type optional_type could not be converted to bool"),
        ('device.driver.findAll("", 9223372036854775807).size() == 16', "true"),
        ('device.driver.findAll("", 9223372036854775807) == []', "false"),
        (f"!lists.range(9990).all(x, {' && '.join([MASKED] * 8)})", f"error: {EXCEEDED}"),
        ('lists.range(9990).all(x, cidr("::/0").containsCIDR("::1/128"))', "true"),
        ('lists.range(9990).all(x, ip("::1").family() == 6 && ip("1.2.3.4").isLoopback() == false)', "true"),
        ('lists.range(9990).all(x, "abc".find("b.*") == "bc")', "true"),
        ('lists.range(9990).all(x, url("https://a.b/c").getHost() == "a.b" && isURL("https://b"))', "true"),
        ("[1].sortBy(v%1, 2) == []", "refused: compilation failed: ERROR: <input>:1:12: argument is not an identifier"),
    ],
)  # fmt: skip
def test_an_attack_ends_at_once(expression: str, wanted: str) -> None:
    began = time.process_time()
    assert outcome(expression).startswith(wanted)
    assert time.process_time() - began < SECONDS


def policy(expression: str, value: Any = None, old: Any = None) -> Any:
    policies.check(expression, PolicyScope())
    return policies.program(expression, PolicyScope()).value({"object": value, "oldObject": old})


@pytest.mark.parametrize("expression", ['dyn({"a": object.?data[0]})', "object.?spec[0]", "[object.?data[0]]"])
def test_an_optional_of_a_policy_is_a_value(expression: str) -> None:
    assert policy(expression, {"spec": [1], "data": [2]}) in ({"a": 2}, 1, [2])
    assert policy(expression, {}) in ({"a": None}, None, [None])


def test_many_finalizers_end_at_the_budget() -> None:
    same = "object.metadata.?finalizers.orValue([]).all(f, f in oldObject.metadata.?finalizers.orValue([]))"
    new = {"metadata": {"finalizers": [f"a.b/{at}" for at in range(36_000)]}}
    old = {"metadata": {"finalizers": [f"c.b/{at}" for at in range(9_900)]}}
    began = time.process_time()
    assert policy(same, old, new) is False
    with pytest.raises(EvaluationError, match=EXCEEDED):
        policy(same, new, new)
    assert time.process_time() - began < SECONDS


def test_a_rule_that_finds_without_end_ends() -> None:
    program = rules.program("self.findAll('', 1000000000).size() > 0", False)
    began = time.process_time()
    assert program.value("abc", None, False) is True
    with pytest.raises(EvaluationError, match=EXCEEDED):
        program.value("a" * 3_000_000, None, False)
    assert time.process_time() - began < SECONDS


BIG = {"texts": ["x" * 1000] * 1000, "text": "ab" * 100_000, "numbers": list(range(100_000)), "maps": {
    f"k{at}": {"a": [at]} for at in range(20_000)}}  # fmt: skip
GROWING = r"""
object.texts.map(a, object.texts.map(b, object.texts.map(c, a + b + c)))
object.texts.map(a, object.texts.join(a)).join().size() == 0
object.numbers.all(a, object.numbers == object.numbers)
object.numbers.all(a, [object.numbers, object.numbers] != [])
object.numbers.map(a, object.maps == object.maps)
object.numbers.map(a, object.numbers + object.numbers)
object.numbers.map(a, object.numbers.sort())
object.numbers.map(a, sets.contains(object.numbers, object.numbers))
object.texts.map(a, object.text.replace("a", a))
object.texts.map(a, object.text.split(""))
object.texts.map(a, object.text.findAll("a|b"))
object.texts.map(a, "%s%s".format([object.texts, object.texts]))
object.texts.map(a, object.texts.map(b, "%1000s".format([1])))
object.texts.map(a, object.texts.map(b, "%.999f".format([1.0])))
object.numbers.map(a, object.text.matches("(a|b)*c" + string(a)))
object.numbers.map(a, object.text.matches("\\pL{" + string(a) + "}"))
object.numbers.map(a, object.text.lastIndexOf("ba" + "a"))
object.numbers.map(a, object.numbers.slice(0, 50000))
object.numbers.map(a, lists.range(100000))
object.numbers.map(a, object.numbers.sum() + object.numbers.max())
object.numbers.map(a, object.numbers.distinct())
object.numbers.map(a, object.numbers.reverse())
object.numbers.map(a, [object.numbers].flatten())
object.numbers.map(a, object.numbers.indexOf(-1))
object.numbers.map(a, object.maps.transformMap(k, v, v))
object.numbers.map(a, object.maps.transformList(k, v, k))
object.numbers.map(a, strings.quote(object.text))
object.numbers.map(a, object.text.upperAscii().lowerAscii().trim().upperAscii())
object.numbers.map(a, object.text < object.text + "a")
object.numbers.map(a, object.text.substring(1))
object.numbers.map(a, format.dns1123Subdomain().validate(object.text))
object.numbers.map(a, quantity("1Gi").add(quantity(string(a))).isGreaterThan(quantity("7")))
object.numbers.map(a, semver("1.2." + string(a)).isLessThan(semver("1.3.0")))
object.numbers.map(a, timestamp("2020-01-01T00:00:00Z").getHours("Europe/Berlin"))
object.numbers.map(a, duration(string(a) + "s"))
object.numbers.map(a, cidr("10.0.0.0/8").containsIP("10.1.1.1"))
object.numbers.map(a, url("https://a/" + string(a)).getQuery())
object.numbers.map(a, jsonpatch.escapeKey(object.text))
object.numbers.map(a, bytes(object.text).size() + string(bytes(object.text)).size())
object.numbers.map(a, authorizer.path("/a").check("get").allowed())
"""


@pytest.mark.parametrize("expression", GROWING.strip().splitlines())
def test_work_that_grows_ends_at_the_budget(expression: str) -> None:
    program = policies.program(expression, PolicyScope())
    began = time.process_time()
    with pytest.raises(EvaluationError):
        program.value({"object": BIG, "authorizer": authorizing.START})
    assert time.process_time() - began < SECONDS


def test_equal_parts_of_parts_are_counted() -> None:
    """A value of 23 lists that would be 2^23 parts when it is compared or converted."""
    text = "a22"
    for level in range(22, 0, -1):
        text = f"cel.bind(a{level}, [a{level - 1}, a{level - 1}], {text})"
    for use in (text, text.replace(", a22)", ", a22 == a22)"), text.replace(", a22)", ", '%s'.format([a22]))")):
        program = policies.program(f"cel.bind(a0, [object], {use})", PolicyScope())
        with pytest.raises(EvaluationError, match=EXCEEDED):
            program.value({"object": 1})


@pytest.mark.parametrize(
    "error", [KeyError("a"), RecursionError(), MemoryError(), SystemError("b"), ZeroDivisionError()]
)
def test_an_unknown_error_is_an_evaluation_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setitem(registry.TABLE, "trim", {(str,): registry.Overload(broken, None, 1, False)})
    program = compile_program("device.driver.trim() == '' || true")
    with pytest.raises(EvaluationError, match=f"internal error: {type(error).__name__}"):
        program.matches(D, made())


def test_a_budget_is_shared() -> None:
    program = policies.program("object.all(x, x > 0)", PolicyScope())
    budget = CostBudget(1_000)
    assert program.value({"object": [1] * 100}, budget) is True
    left = budget.left
    assert 0 < left < 900
    assert program.value({"object": [1] * 100}, budget) is True
    assert budget.left == 2 * left - 1_000
    with pytest.raises(EvaluationError, match=EXCEEDED):
        program.value({"object": [1] * 1_000_000}, budget)
    assert budget.left == 2 * left - 1_000 - CALL_LIMIT


def test_a_program_of_checked_bytes_needs_no_native_library() -> None:
    checked = compile_program(f'device.driver == "{D}" && {A}.n in [1, 2]')
    code = (
        "import sys\n"
        "from protocols.cel.programs import SelectorProgram\n"
        "from tests.unit.cel.test_cel import D, made\n"
        f"program = SelectorProgram({checked.cost}, {checked.serialized!r})\n"
        "assert program.is_simple\n"
        "assert program.matches(D, made({'n': 2})) and not program.matches(D, made({'n': 3}))\n"
        "assert not any(name.startswith('cel_expr') for name in sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    ("expression", "simple"),
    [
        (f'{A}.name == "a" && {A}.n >= 3 || !has({A}.x) || {A}.name in ["a", "b"]', True),
        (f'device.capacity["{D}"].mem.compareTo(quantity("1Gi")) > 0 && {A}.v.isLessThan(semver("1.0.0"))', True),
        (f'{A}.name.startsWith("a") && {A}.name.lowerAscii().contains("b") && device.driver.size() > 1', True),
        (f'{A}.?name.orValue("a") == "a"', True),
        (f"{A}.name.matches('a')", False),
        (f"{A}.exists(x, x == 'a')", False),
        (f"cel.bind(x, {A}, x.name == 'a')", False),
        (f"quantity({A}.name).isGreaterThan(quantity('1'))", False),
        ("lists.range(3).size() == 3", False),
        (f"{A}.name.replace('a', 'b') == 'b'", False),
        ("||".join(["device.driver<'b'"] * 530), False),
    ],
)
def test_what_is_simple(expression: str, simple: bool) -> None:
    assert compile_program(expression).is_simple is simple


@pytest.mark.parametrize(
    ("expression", "short"),
    [
        ("object.a.all(x, x.b == 'a' && x.c in ['a', 'b'])", True),
        ("object.a.exists(x, object.b.all(y, y != x))", True),
        ("object.a.existsOne(k, v, v == 1)", True),
        ("object.a.filter(x, has(x.b)).map(x, x.b).size() < 3", True),
        ("object.a.map(x, x.b, x.c) == [object.d]", True),
        ("object.a.transformList(i, x, i < 2, x) == []", True),
        ("object.a.all(x, x.matches('^[a-z]+$'))", True),
        ("matches(object.a, '(?:a|b)*')", True),
        ("object.a.matches('a{1,3}')", False),
        ("object.a.matches('" + ".*" * 12 + "')", False),
        ("object.a.matches(object.b)", False),
        ("object.a.find('a') == ''", False),
        ("object.a.map(x, x + x) == []", False),
        ("object.a.map(x, [x, x].map(y, quantity(y))) == []", False),
        ("object.a.transformMap(k, v, v) == {}", False),
        ("cel.bind(x, object.a, [x, x] == [])", False),
        ("object.?a.optMap(x, x).hasValue()", False),
        ("lists.range(3).all(x, x < 5)", False),
    ],
)
def test_what_is_short(expression: str, short: bool) -> None:
    serialized = policies.program(expression, policies.PolicyScope(False, False, ())).serialized
    assert is_short(serialized) is short


def test_every_declared_function_has_a_body() -> None:
    from protocols.cel import environment
    from protocols.cel.libraries.functions import WRITTEN

    names = {WRITTEN.get(function.name, function.name) for function in environment.FUNCTIONS}
    names |= {name for name, *_ in authorizing.STEPS}
    assert names <= registry.TABLE.keys()


@pytest.mark.parametrize(
    ("expression", "value", "cost"),
    [
        ("'a'", None, 0),
        ("object", [1, 2], 1),
        ("object['key']", {"key": "v"}, 2),
        ("object[0]", ["v"], 2),
        ("object.key", {"key": "v"}, 2),
        ("object['ke' + 'y']", {"key": "v"}, 3),
        ("object[3-3]", ["v"], 3),
        ("has(object.a.b)", {"a": {"b": 0}}, 2),
        ("[1, 2, 3]", None, 10),
        ("{'a': 1, 'b': 2, 'c': 3}", None, 30),
        ("object.all(x, true)", [], 2),
        ("[1, 2, 3].all(x, true)", None, 20),
        ("object.matches('[0-9]')", "a" * 500, 103 + 2),
        ("true || false", None, 0),
        ("object.a && object.b && object.c", {"a": True, "b": True, "c": True}, 6),
        ("1 < 2", None, 1),
        ("2 in [1, 2, 3]", None, 13),
        ("1 + 1", None, 1),
        ("true ? 1 : 2", None, 0),
        ("size('123')", None, 1),
        ("'12345678901234567890' == '123456789012345678901234567890'", None, 2),
        ("bytes(object)", "a" * 500, 51),
        ("object.a.contains(object.b)", {"a": "a" * 500, "b": "a" * 500}, 2504),
        ("object.a.startsWith(object.b)", {"a": "idc", "b": "a" * 500}, 5),
        ("'abcdefg'.contains(object.a + object.b)", {"a": "val1", "b": "val2222222"}, 8),
        ("(1 > 2 || 2 > 1) == true", None, 3),
        ("[{'k1': 1}, {'k2': 2}].all(x, true)", None, 77),
        ("authorizer.path('/a').check('get').allowed()", None, 350_003),
        ("object.sum() + object.map(x, x).size()", [1, 2], 1 + 2 + 1 + 10 + 2 * 13 + 1 + 1 + 1),
    ],
)
def test_costs_while_running_are_upstreams(expression: str, value: Any, cost: int) -> None:
    budget = CostBudget(CALL_LIMIT)
    values = [value if name == "object" else authorizing.START for name in policies.VARIABLES]
    program = policies.program(expression, PolicyScope())
    with authorizing.deciding(lambda asked: (True, "")):
        program._expression.evaluate(values, budget)
    assert CALL_LIMIT - budget.left == cost


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp('9999-12-31T23:59:59Z').getFullYear('Europe/Berlin') == 10000",
        "timestamp('0001-01-01T00:00:00Z').getFullYear('America/New_York') == 0",
        "timestamp('2024-02-29T23:30:00Z').getDayOfYear('+02:00') == 60",
        "duration('1h1.5s').getMilliseconds() == 3601500 && string(duration('90s')) == '90s'",
        "string(1e6) == '1e+06' && string(123456.0) == '123456' && string(1.0 / 0.0) == '+Inf'",
        "string(timestamp('2020-01-01T00:00:00.120Z')) == '2020-01-01T00:00:00.12Z'",
        "!has(object.n.x) && object.n.?x == optional.none() && object.s[?0] == optional.none()",
        "'abc'.indexOf('z', 99) == -1 && 'abc'.indexOf('', 1) == 1 && ''.split('') == []",
        "{1: 'a'}[dyn(1u)] == 'a' && dyn(1.0) in {1: 2}",
        "!(dyn(1) in {dyn(true): 2}) && {dyn(true): 2}[dyn(true)] == 2",
        "dyn(1) == dyn(1u) && dyn(1) == dyn(1.0) && dyn(true) != dyn(1) && [1] == [dyn(1.0)] && dyn(1) != dyn('1')",
        "9007199254740993 == dyn(9007199254740992.0) && !(9007199254740993 > dyn(9007199254740992.0))",
        "double('NaN') != double('NaN') && !(dyn(1) == double('NaN'))",
        "-7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1 && 7u / 2u == 3u",
        "google.protobuf.Int64Value{value: 3} == 3 && google.protobuf.BoolValue{} == false",
        "'ab'.findAll('a*') == ['a', ''] && 'baaac'.findAll('a*') == ['', 'aaa', ''] && 'é'.findAll('') == ['', '']",
        "'a%sb'.format([{'k': [1, 2.5, true, null]}]) == 'a{k: [1, 2.5, true, null]}b'",
        "'%f %.1e %f'.format([double('inf'), 'NaN', '-Infinity']) == '∞ NaN -∞'",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6] && [3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        "type(optional.of(1)) == optional_type && type(type(1)) == type && type(quantity('1')) != int",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().optMap(x, 1 / 0).hasValue()",
    ],
)
def test_semantics_are_upstreams(expression: str) -> None:
    assert policy(expression, {"n": 1, "s": "text"}) is True


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("9223372036854775807 * 2", "integer overflow"),
        ("1u - 2u", "unsigned integer overflow"),
        ("-(-9223372036854775807 - 1)", "integer overflow"),
        ("(-9223372036854775807 - 1) % -1", "integer overflow"),
        ("1 % 0", "modulus by zero"),
        ("int(1e300)", "integer overflow"),
        ("int(-9223372036854775808.0)", "integer overflow"),
        ("1 < double('NaN')", "NaN values cannot be ordered"),
        ("[0.0 / 0.0, 1.0].max() == 1.0", "NaN values cannot be ordered"),
        ("int('a')", 'strconv.ParseInt: parsing "a": invalid syntax'),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("duration('2562047h') + duration('2562047h')", "duration overflow"),
        ("[1][-1]", "index out of bounds: -1"),
        ("object.zz", "no such key: zz"),
        ("object.n.zz", "no such key: zz"),
        ("dyn(1) + dyn('a')", "no such overload: _[+]_"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'%d'.format(['a'])", "%d cannot format a value of type string"),
        ("optional.none().value()", "optional.none.. dereference"),
        ("timestamp('2020-01-01T00:00:00Z').getHours('Nowhere/City')", "unknown time zone Nowhere/City"),
        ("{'a': 1, 'a': 2}", "Failed with repeated key a"),
        ("[].min()", "min called on empty list"),
        ("ip('x').family() == 4", 'IP Address "x" parse error during conversion from string: ParseAddr'),
        ("cidr('10.0.0.0').ip()", "network address parse error during conversion from string: netip.ParsePrefix"),
        ("url('..').getHost()", 'URL parse error during conversion from string: parse "..": invalid URI for request'),
        ("string(b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"),
    ],
)
def test_errors_are_upstreams(expression: str, fault: str) -> None:
    program = policies.program(expression, PolicyScope())
    with pytest.raises(EvaluationError, match=fault):
        program.value({"object": {"n": 1, "s": "text"}})


def test_limits_are_upstreams() -> None:
    assert (LIMIT, CALL_LIMIT, policies.COST) == (1_000_000, 1_000_000, 10_000_000)
    assert running.TABLES
    with pytest.raises(CompileError):
        SelectorProgram(0, b"")


def test_the_cost_of_nested_loops_is_found_in_one_pass() -> None:
    text = "1"
    for depth in range(28):
        text = f"[1].map(v{depth}, {text})"
    chain = "[1]" + ".map(v, [v].map(w, w + v)[0])" * 12
    for each in (f"{text}.size() == 1", f"{chain} == [1]"):
        began = time.process_time()
        assert 0 < cost_of(policies.program(each, PolicyScope()).serialized) <= policies.COST
        assert time.process_time() - began < 2
