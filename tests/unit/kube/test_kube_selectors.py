import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kube.errors import SelectorInvalid
from protocols.kube.selectors import (
    label_selector_from_object,
    parse_field_selector,
    parse_label_selector,
    term_matches,
)

LABELS = {"app": "web", "tier": "front", "rank": "5", "empty": "", "example.com/x": "y"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app", True),
        ("nope", False),
        ("!nope", True),
        ("!app", False),
        ("! app", False),
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=db", False),
        ("app!=db", True),
        ("nope!=db", True),
        ("app!=web", False),
        ("app in (web,db)", True),
        ("app in ( web , db )", True),
        ("app in(db)", False),
        ("app notin (db)", True),
        ("nope notin (db)", True),
        ("app notin (web)", False),
        ("empty=", True),
        ("empty in (,x)", True),
        ("app=", False),
        ("rank>4", True),
        ("rank > 5", False),
        ("rank<6", True),
        ("app>1", False),
        ("nope>1", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("example.com/x=y", True),
        ("in=x", False),
    ],
)
def test_label_selector(text: str, expected: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is expected


WORDS = ", a, a=b,,c=d =a !  a=b=c -a a=-b a/b/c (a) !!a a> a>x a<1.5 !a=b a\x00 a=" + "x" * 64
BAD_LABEL_SELECTORS = (*WORDS.split(), "a b", "a in b", "a in (b", "a in b)", "a in ()x", "a notin")


@pytest.mark.parametrize("text", BAD_LABEL_SELECTORS)
def test_bad_label_selectors(text: str) -> None:
    with pytest.raises(SelectorInvalid) as caught:
        parse_label_selector(text)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet="ab=!,()<> in1", max_size=25))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(SelectorInvalid):
        parse_label_selector(text).matches(LABELS)


def test_object_form() -> None:
    selector = label_selector_from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front"]},
                {"key": "nope", "operator": "DoesNotExist"},
                {"key": "rank", "operator": "Gt", "values": ["1"]},
            ],
        }
    )
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web"})
    assert label_selector_from_object(None).matches({})
    with pytest.raises(SelectorInvalid, match="operator 'Near'"):
        label_selector_from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})
    with pytest.raises(SelectorInvalid, match="at least one"):
        label_selector_from_object({"matchExpressions": [{"key": "a", "operator": "In"}]})


@pytest.mark.parametrize("label", ["1_0", "10 ", "", "9" * 20, "x"])
def test_label_that_is_no_number_is_neither_above_nor_below(label: str) -> None:
    for operator in ("Gt", "Lt"):
        demand = {"key": "rank", "operator": operator, "values": ["5"]}
        assert not term_matches({"matchExpressions": [demand]}, "n", {"rank": label})
        assert not term_matches({"matchExpressions": [{**demand, "values": [label]}]}, "n", {"rank": "5"})
        assert not term_matches({"matchExpressions": [{**demand, "values": []}]}, "n", {"rank": "5"})


def field(values: dict[str, str], text: str) -> bool:
    return parse_field_selector(text).matches(lambda name: values.get(name, ""))


def test_field_selector() -> None:
    pod = {"metadata.name": "a", "spec.nodeName": "n1"}
    assert field(pod, "metadata.name=a")
    assert field(pod, "metadata.name==a,spec.nodeName!=n2")
    assert not field(pod, "metadata.name!=a")
    assert field({}, "spec.nodeName=")
    assert not field(pod, "spec.nodeName=")
    assert field(pod, "")
    assert field({"x": "a,b=c\\"}, r"x=a\,b\=c\\")


@pytest.mark.parametrize("text", ["a", "=a", "a=b=c", r"a=b\x", "a=b\\", "!a=b"])
def test_bad_field_selectors(text: str) -> None:
    with pytest.raises(SelectorInvalid):
        parse_field_selector(text)


@given(st.text(max_size=20))
def test_escaped_values_read_back(value: str) -> None:
    escaped = "".join(f"\\{char}" if char in "\\,=" else char for char in value)
    assert [(term.field, term.value, term.equal) for term in parse_field_selector(f"a={escaped}").terms] == [
        ("a", value, True)
    ]


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "x", "y", "1", "2", "30"])
TERMS = st.one_of(
    KEYS,
    KEYS.map(lambda key: f"!{key}"),
    st.tuples(KEYS, st.sampled_from(["=", "!="]), VALUES).map("".join),
    st.tuples(KEYS, st.sampled_from([">", "<"]), st.sampled_from(["1", "2", "15"])).map("".join),
    st.tuples(KEYS, st.sampled_from([" in ", " notin "]), st.lists(VALUES, min_size=1)).map(
        lambda term: f"{term[0]}{term[1]}({','.join(term[2])})"
    ),
)


@given(st.lists(TERMS, max_size=8), st.dictionaries(KEYS, VALUES))
def test_matcher_of_any_selector_agrees_with_its_requirements(terms: list[str], labels: dict[str, str]) -> None:
    selector = parse_label_selector(",".join(terms))
    assert selector.matcher()(labels) is selector.matches(labels)


@pytest.mark.parametrize("text", ["!a," * 5_000 + "b", "a in (" + "v," * 5_000 + "v)", "a" * 70_000])
def test_label_selector_beyond_its_bounds_is_invalid(text: str) -> None:
    with pytest.raises(SelectorInvalid, match="labelSelector: must have at most"):
        parse_label_selector(text)


@pytest.mark.parametrize("text", ["a!=b," * 500 + "a!=b", "a=" + "b" * 70_000])
def test_field_selector_beyond_its_bounds_is_invalid(text: str) -> None:
    with pytest.raises(SelectorInvalid, match="fieldSelector: must have at most"):
        parse_field_selector(text)
