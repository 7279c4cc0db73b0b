"""Functions of Kubernetes 1.36's CEL environment: each in an expression that holds, or rejected when it is created."""

import pytest

from protocols.cel import policies
from protocols.cel.text.source import CompileError, EvaluationError
from tests.unit.cel.test_cel import REFUSED, outcome

HOLDS = r"""
size("ab") == 2
"ab".size() == 2
size([1]) == 1
[1].size() == 1
size({"a": 1}) == 1
size(b"ab") == 2
b"ab".size() == 2
{"a":1}.size() == 1
"abc".startsWith("a") && "abc".endsWith("c") && "abc".contains("b")
"abc".matches("a.c") && matches("abc", "a.c")
int("1") == 1 && int(1.5) == 1 && int(2u) == 2 && int(3) == 3 && int(timestamp("1970-01-01T00:00:01Z")) == 1
uint("1") == 1u && uint(1) == 1u && uint(1.5) == 1u && uint(1u) == 1u
double("1.5") == 1.5 && double(1) == 1.0 && double(1u) == 1.0 && double(1.0) == 1.0
string(1) == "1"
string(1u) == "1"
string(1.5) == "1.5"
string(true) == "true"
string("a") == "a"
string(b"a") == "a"
string(timestamp("1970-01-01T00:00:01Z")) == "1970-01-01T00:00:01Z" && string(duration("90s")) == "90s"
bytes("a") == b"a" && bytes(b"a") == b"a"
bool("true") && bool(true)
type(1) == int
type("a") == string
type(type(1)) == type
type(null) == null_type
type([]) == list
type({}) == map
dyn(1) == 1
timestamp("2020-01-02T03:04:05.006Z").getFullYear() == 2020
timestamp("2020-01-02T03:04:05.006Z").getMonth() == 0
timestamp("2020-01-02T03:04:05Z").getDate() == 2
timestamp("2020-01-02T03:04:05Z").getDayOfMonth() == 1
timestamp("2020-01-02T03:04:05Z").getDayOfWeek() == 4
timestamp("2020-01-02T03:04:05Z").getDayOfYear() == 1
timestamp("2020-01-02T03:04:05.006Z").getHours() == 3
timestamp("2020-01-02T03:04:05Z").getMinutes() == 4
timestamp("2020-01-02T03:04:05Z").getSeconds() == 5
timestamp("2020-01-02T03:04:05.006Z").getMilliseconds() == 6
timestamp("2020-01-02T03:04:05Z").getHours("02:00") == 5
timestamp("2020-01-02T03:04:05Z").getHours("America/New_York") == 22
duration("1h30m").getHours() == 1
duration("1h30m").getMinutes() == 90
duration("1s").getSeconds() == 1
duration("1.5s").getMilliseconds() == 1500
timestamp("2020-01-02T03:04:05Z") + duration("1s") > timestamp("2020-01-02T03:04:05Z")
timestamp("2020-01-02T03:04:05Z") - timestamp("2020-01-02T03:04:04Z") == duration("1s")
duration("1s") - duration("1s") == duration("0s")
timestamp(0) == timestamp("1970-01-01T00:00:00Z")
timestamp(timestamp(0)) == timestamp(0)
duration(duration("1s")) == duration("1s")
-(1) == -1
7 % 2 == 1
7 / 2 == 3
2 * 3 == 6
1.5 + 1.5 == 3.0
"a" + "b" == "ab"
[1] + [2] == [1, 2]
b"a" + b"b" == b"ab"
3u - 1u == 2u
1 in [1] && "a" in {"a": 1} && (true ? 1 : 2) == 1 && !false
[1, 2].all(x, x > 0)
[1, 2].exists(x, x == 2)
[1, 2].exists_one(x, x == 2)
[1, 2].map(x, x * 2) == [2, 4]
[1, 2].map(x, x > 1, x * 2) == [4]
[1, 2].filter(x, x > 1) == [2]
has({"a": 1}.a) && 1 < 2.5 && 1u < 2 && 2.5 > 1u
optional.of(1).hasValue()
!optional.none().hasValue()
optional.of(1).value() == 1
optional.ofNonZeroValue(0) == optional.none()
{"a": 1}[?"a"].orValue(2) == 1 && {"a": 1}.?b.orValue(2) == 2 && optional.none().or(optional.of(3)).value() == 3
optional.of(2).optMap(x, x + 1) == optional.of(3)
optional.of(2).optFlatMap(x, optional.of(x + 1)) == optional.of(3)
[?optional.of(1), ?optional.none()] == [1] && {?"a": optional.none()} == {} && [1, 2][?5].orValue(7) == 7
cel.bind(x, 1, x + x) == 2
"hello".charAt(1) == "e"
"a,b".indexOf(",") == 1
"abcb".indexOf("b", 2) == 3
"abcb".lastIndexOf("b") == 3
"abcb".lastIndexOf("b", 2) == 1
["a", "b"].join() == "ab" && ["a", "b"].join("-") == "a-b"
strings.quote("a\nb") == "\"a\\nb\""
"TacoCat".lowerAscii() == "tacocat" && "TacoCat".upperAscii() == "TACOCAT"
"hello hello".replace("he", "we") == "wello wello" && "hello hello".replace("he", "we", 1) == "wello hello"
"a b c".split(" ") == ["a", "b", "c"] && "a b c".split(" ", 2) == ["a", "b c"]
"tacocat".substring(4) == "cat" && "tacocat".substring(0, 4) == "taco"
"  a ".trim() == "a"
"%s %d %.2f %x %b %e %%".format(["a", 1, 1.5, 255, 5, 1.0]) == "a 1 1.50 ff 101 1.000000e+00 %"
"%s".format([[1, "a"]]) == "[1, a]"
"%X %o".format([255, 8]) == "FF 10"
sets.contains([1, 2], [1]) && sets.equivalent([1], [1, 1]) && sets.intersects([1], [1, 2])
lists.range(3) == [0, 1, 2]
[1, 2, 3].slice(1, 3) == [2, 3]
[[1], [2]].flatten() == [1, 2]
[1, 1, 2].distinct() == [1, 2]
[1, 2].reverse() == [2, 1]
[2, 1].sort() == [1, 2]
["bb", "a"].sortBy(x, x.size()) == ["a", "bb"]
[1, 2].first().value() == 1 && [1, 2].last().value() == 2
[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, v > 1, v) == [2]
{"a": 1}.transformList(k, v, k) == ["a"]
{"b": 1, "a": 2}.transformList(k, v, v).sort() == [1, 2]
[1, 2].isSorted()
[1, 2].sum() == 3
[1, 2].min() == 1
[1, 2].max() == 2
[1, 2, 1].indexOf(1) == 0
[1, 2, 1].lastIndexOf(1) == 2
"abc 123".find("[0-9]+") == "123" && "1 2".findAll("[0-9]") == ["1", "2"] && "1 2".findAll("[0-9]", 1) == ["1"]
isURL("https://a.b:80/c?d=e") && !isURL("../a")
!isURL(" https://a.b/c") && url("https://a.b/c#d").getEscapedPath() == "/c" && isURL("mailto:a@b")
!isCIDR("10.0.0.0/08") && isCIDR("10.0.0.0/0")
url("https://a.b:80/c?d=e").getScheme() == "https"
url("https://a.b:80/c?d=e").getHost() == "a.b:80"
url("https://a.b:80/c?d=e").getHostname() == "a.b"
url("https://a.b:80/c?d=e").getPort() == "80"
url("https://a.b:80/c%20d").getEscapedPath() == "/c%20d"
url("https://a.b/c?d=e&d=f").getQuery() == {"d": ["e", "f"]} && url("https://a.b/").getPort() == ""
url("https://[::1]:80/").getHostname() == "::1" && url("https://[::1]:80/").getHost() == "[::1]:80"
url("/path") == url("/path") && url("https://a") != url("https://b")
isQuantity("1Gi")
quantity("2k").asInteger() == 2000
quantity("1500m").asApproximateFloat() == 1.5
quantity("2").isInteger()
quantity("1").add(quantity("2")) == quantity("3")
quantity("1").add(2) == quantity("3")
quantity("3").sub(quantity("1")) == quantity("2")
quantity("3").sub(1) == quantity("2")
quantity("1").isGreaterThan(quantity("0"))
quantity("0").isLessThan(quantity("1"))
quantity("1").compareTo(quantity("1")) == 0
sign(quantity("-1")) == -1
isIP("::1")
ip("127.0.0.1").family() == 4
ip("::1").family() == 6
ip.isCanonical("127.0.0.1")
!ip.isCanonical("2001:DB8::1")
ip("0.0.0.0").isUnspecified()
ip("127.0.0.1").isLoopback()
ip("224.0.0.1").isLinkLocalMulticast()
ip("ff12::1").isLinkLocalMulticast()
ip("169.254.169.254").isLinkLocalUnicast()
ip("192.168.0.1").isGlobalUnicast()
string(ip("::1")) == "::1"
string(ip("2001:DB8::1")) == "2001:db8::1"
"%s".format([string(ip("10.0.0.1"))]) == "10.0.0.1"
cidr("10.0.0.0/8").containsIP("10.1.1.1")
cidr("10.0.0.0/8").containsIP(ip("10.1.1.1"))
cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")
cidr("10.0.0.0/8").containsCIDR(cidr("10.1.0.0/16"))
cidr("10.0.0.1/8").ip() == ip("10.0.0.1")
cidr("10.0.0.1/8").masked() == cidr("10.0.0.0/8")
cidr("10.0.0.0/8").prefixLength() == 8
isCIDR("10.0.0.0/8")
string(cidr("10.0.0.1/8")) == "10.0.0.1/8"
string(cidr("10.0.0.1/8").masked()) == "10.0.0.0/8" && string(cidr("10.0.0.1/8").ip()) == "10.0.0.1"
isSemver("1.0.0")
isSemver("v1.0", true)
semver("1.2.3").major() == 1
semver("1.2.3").minor() == 2
semver("1.2.3").patch() == 3
semver("v1.2", true).isLessThan(semver("1.2.3"))
semver("1.2.3").compareTo(semver("1.2.3")) == 0
semver("2.0.0").isGreaterThan(semver("1.0.0"))
!format.named("dns1123Label").value().validate("a").hasValue()
!format.dns1123Label().validate("a").hasValue()
!format.dns1123Subdomain().validate("a.b").hasValue()
!format.dns1035Label().validate("a").hasValue()
!format.qualifiedName().validate("a/b").hasValue()
!format.dns1123LabelPrefix().validate("a-").hasValue()
!format.dns1123SubdomainPrefix().validate("a-").hasValue()
!format.dns1035LabelPrefix().validate("a-").hasValue()
!format.labelValue().validate("a").hasValue()
!format.uri().validate("http://a").hasValue()
!format.uuid().validate("11111111-1111-1111-1111-111111111111").hasValue()
!format.byte().validate("YQ==").hasValue()
!format.date().validate("2020-01-02").hasValue()
!format.datetime().validate("2020-01-02T03:04:05Z").hasValue()
format.dns1123Label() == format.dns1123Label()
[1, 2].all(i, v, i < v) && {"a": 1}.exists(k, v, v == 1) && [1, 2].existsOne(i, v, v == 2)
["a", "b"].max() == "b" && [1.5, 1.0].sum() == 2.5 && [b"a", b"b"].min() == b"a" && [1u, 2u].isSorted()
[timestamp(0)].isSorted() && [duration("1s")].isSorted() && [false, true].isSorted()
[[1], [2]].flatten(1) == [1, 2]
[1u, 2u].sum() == 3u && [duration("1s"), duration("2s")].max() == duration("2s")
[1, 2, 1].existsOne(x, x == 2) && {"a": 1}.exists_one(k, v, v == 1) && [[1], [2]].existsOne(x, x.existsOne(y, y == 2))
{"existsone": 1}.existsone == 1 && [1, 2].all(existsone, existsone > 0)
optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of("a")].unwrapOpt().all(x, x.size() == 1)
string(timestamp(0)) == "1970-01-01T00:00:00Z" && string(ip("::1")) == "::1"
"""


@pytest.mark.parametrize("expression", HOLDS.strip().splitlines())
def test_a_function_of_the_environment_holds(expression: str) -> None:
    assert outcome(expression) == "true"


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("math.greatest(1, 2) == 2", "undeclared reference to 'math'"),
        ("'abc'.reverse() == 'cba'", "no matching overload for 'reverse'"),
        ("[1].existsone(x, x == 1)", "undeclared reference to 'existsone'"),
        ("[1].includes(1)", "undeclared reference to 'includes'"),
        ('strinG(ip("::1")) == ""', "undeclared reference to 'strinG'"),
        ('string(quantity("1")) == ""', "found no matching overload for 'string'"),
    ],
)
def test_a_function_that_cannot_be_had_is_rejected(expression: str, fault: str) -> None:
    assert outcome(expression).startswith(REFUSED)
    assert fault in outcome(expression)


def test_bind_is_for_selectors_alone() -> None:
    """Upstream adds it to the environment of devices only; a field `cel` with a function `bind` is another thing."""
    with pytest.raises(CompileError, match=r"<input>:1:2: undeclared reference to 'cel'"):
        policies.check("!cel.bind(x, true, x)", policies.PolicyScope())
    with pytest.raises(CompileError, match="undeclared reference to 'bind'"):
        policies.check("object.cel.bind(1, 2, 3)", policies.PolicyScope())


FORMATS = [
    ("'%d'.format(['a']) == ''", r"1:14: error during formatting: decimal clause .* integers, was given string"),
    (
        "'%d %s'.format([1, [1, {'a': ip('::1')}]]) == ''",
        "1:32: .*lists, types, durations, and timestamps, was given net.IP",
    ),
    ("'%f'.format([1]) == ''", "fixed-point clause can only be used on doubles, was given int"),
    ("'%z'.format([1]) == ''", '1:12: could not parse formatting clause: unrecognized formatting clause "z"'),
    ("'%.2'.format([1.0]) == ''", "error while parsing precision: could not find end of precision specifier"),
    ("'%d'.format([]) == ''", "index 0 out of range"),
    ("'%'.format([1]) == ''", "unexpected end of string"),
    ("'%d%%'.format([1, 2]) == ''", r"too many arguments supplied to string.format \(expected 1, got 2\)"),
]


@pytest.mark.parametrize(("expression", "fault"), FORMATS)
def test_a_literal_template_is_checked_where_an_expression_is_created(expression: str, fault: str) -> None:
    with pytest.raises(CompileError, match=fault):
        policies.check(expression, policies.PolicyScope())


def test_templates_and_values_that_are_known_later_are_not_checked() -> None:
    for call in (
        "'%d %f %s'.format([object.a, object.b, object])",
        "'%d'.format(object.a)",
        "string(object.a).format([1])",
    ):
        policies.check(call, policies.PolicyScope())


def test_an_error_keeps_its_place_beside_renamed_macros() -> None:
    with pytest.raises(CompileError, match=r"<input>:1:18: undeclared reference to 'y'"):
        policies.check("[1].existsOne(x, y == 1)", policies.PolicyScope())


def test_conversions_beside_addresses_are_the_engines() -> None:
    same = "string(1.5) == '1.5' && string(b'a') == 'a' && string(7u) == '7' && string(true) == 'true'"
    assert outcome(f"string(ip('::1')) == '::1' && {same}") == "true"
    assert outcome("string(cidr('::/0')) == '::/0' && string(b'\\xff') == ''").startswith("error: ")


OPTIONALS = [
    ('[{"a": optional.of(1)}].indexOf({"a": optional.of(1)})', 0),
    ('[dyn({"a": optional.of(1)})].sum()', "no such overload: sum"),
    ('[dyn({"a": dyn(optional.of(1))})].indexOf(1)', -1),
    ("[1].map(x, optional.of(x)).lastIndexOf(optional.of(1))", 0),
    ("[[1].first()].indexOf(1)", -1),
    ('[format.uuid().validate("x")].size()', 1),
    ('[optional.of(1)].map(x, [dyn({"a": x})].indexOf(1))[0]', -1),
    ("optional.of(optional.of(1)).value().value()", 1),
    ("([dyn(1)] + [optional.of(1)])[1] == optional.of(1)", True),
    ('[object.x[?"a"]].indexOf(optional.of(1))', 0),
    ('dyn({"a": object.x[?"a"]}).a.value()', 1),
    ('object.x[?"b"][0].value()', 5),
    ('optional.of(object.x[?"a"]) == optional.of(optional.of(1))', True),
    ('[object.x[?"a"]].map(x, [x].sum() == 1)[0]', "no such overload: sum"),
    ('(true ? object.x[?"a"] : dyn(1)) == optional.of(1)', True),
    ('dyn({"a": object.?x[0]}).a == optional.none()', True),
    ("[object.x.?b[0]].sum()", "no such overload: sum"),
]


@pytest.mark.parametrize(("expression", "result"), OPTIONALS)
def test_an_optional_may_be_anywhere(expression: str, result: object) -> None:
    policies.check(expression, policies.PolicyScope())
    program = policies.program(expression, policies.PolicyScope())
    data = {"object": {"x": {"a": 1, "b": [5]}}}
    if isinstance(result, str):
        with pytest.raises(EvaluationError, match=result):
            program.value(data)
    else:
        assert program.value(data) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ('object.x[?"a"].orValue(2)', 1),
        ('object.x[?"c"].or(object.x[?"a"]).orValue(0)', 1),
        ('object.x[?"a"] == optional.of(1)', True),
        ('object.x[?"a"].optMap(v, v + 1).orValue(0)', 2),
        ('object.x[?"a"].hasValue() && !object.x[?"c"].hasValue()', True),
        ('object.x[?"c"].b.orValue(3)', 3),
        ('has(object.x[?"c"].b)', False),
        ("object.x.b[?0].value()", 5),
        ('object.x.b.all(x, object.x[?"a"].orValue(9) < x)', True),
    ],
)
def test_an_optional_of_an_unknown_type_is_unwrapped(expression: str, result: object) -> None:
    policies.check(expression, policies.PolicyScope())
    data = {"object": {"x": {"a": 1, "b": [5]}}}
    assert policies.program(expression, policies.PolicyScope()).value(data) == result


@pytest.mark.parametrize("expression", ["{[1]: 1}", "[{{}: true}]"])
def test_a_map_by_lists_or_maps_is_rejected(expression: str) -> None:
    with pytest.raises(CompileError, match="Unsupported map key type"):
        policies.check(expression, policies.PolicyScope())
    assert outcome(expression).startswith(REFUSED)


@pytest.mark.parametrize(
    "expression",
    [
        '{"a": optional.of(1)}.size() == 1 && [optional.of(1)].size() == 1',
        '[?device.attributes["x"].?y].size() == 0 && {?"a": device.attributes["x"].?y}.size() == 0',
        '[?device.attributes["x"].?y, ?optional.of(1)].indexOf(1) == 0',
        'device.attributes["x"].?y.orValue([1]).indexOf(1) == 0',
        "[optional.of(1).orValue(1)].sum() == 1",
        'format.named("uuid").value().validate("x").value().indexOf("q") == -1',
    ],
)
def test_optionals_in_selectors(expression: str) -> None:
    assert outcome(expression) == "true"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("'''a\nb'''", "a\nb"),
        ("r'''a\n\\b'''", "a\n\\b"),
        ("'a' +\n'b' // c\n", "ab"),
    ],
)
def test_a_text_of_several_lines_is_the_same_in_a_variable(variable: str, value: str) -> None:
    scope = policies.PolicyScope(variables=(("text", variable),))
    assert policies.program("variables.text", scope).value({}) == value
