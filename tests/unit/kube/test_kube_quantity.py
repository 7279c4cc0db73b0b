import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import MAX_NANOS, NANO, ZERO, Quantity, parse_quantity

CANONICAL = [
    ("0", "0"),
    ("0Gi", "0"),
    ("1", "1"),
    ("+1", "1"),
    ("-1", "-1"),
    ("1.", "1"),
    (".5", "500m"),
    ("1.5", "1500m"),
    ("0.5Gi", "512Mi"),
    ("1.5Gi", "1536Mi"),
    ("0.5Ki", "512"),
    ("0.1Ki", "102400m"),
    ("1024Mi", "1Gi"),
    ("1024", "1024"),
    ("1000", "1k"),
    ("12e6", "12e6"),
    ("12E6", "12e6"),
    ("1500e-3", "1500e-3"),
    ("1000m", "1"),
    ("100m", "100m"),
    ("1E", "1E"),
    ("0.1n", "1n"),
    ("-0.1n", "-1n"),
    ("1u", "1u"),
    ("1.0001Ki", "1024102400u"),
    ("-1Ki", "-1Ki"),
    ("1e999", "9223372036854775807"),
    ("100E", "9223372036854775807"),
    ("1e-999", "1e-9"),
    ("3145728", "3145728"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 ",
        "K",
        "1K",
        "1ki",
        "1Zi",
        "1e",
        "1e+",
        ".",
        "-",
        "--1",
        "1,5",
        "1e1.5",
        "0x1",
        "1Gi5",
        "١",
        "1" * 999,
    ],
)
def test_bad_quantities_are_refused(text: str) -> None:
    with pytest.raises(QuantityInvalid):
        parse_quantity(text)


@pytest.mark.parametrize("value", [None, True, [], {}, float("inf"), float("nan")])
def test_other_json_values_are_refused(value: object) -> None:
    with pytest.raises(QuantityInvalid):
        parse_quantity(value)  # type: ignore[arg-type] # what a client may send


def test_json_numbers() -> None:
    assert parse_quantity(3) == parse_quantity("3")
    assert parse_quantity(0.5) == parse_quantity("500m")
    assert parse_quantity(1e-7) == parse_quantity("100n")


def test_rounding_to_units_goes_up() -> None:
    assert parse_quantity("1001m").value() == 2
    assert parse_quantity("-1500m").value() == -1
    assert parse_quantity("1m").milli() == 1
    assert parse_quantity("1u").milli() == 1
    assert parse_quantity("2").milli() == 2000


def test_sum_keeps_the_format_of_the_first_value() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1")) == "1073741825"
    assert str(parse_quantity("1Gi") + parse_quantity("1073741824")) == "2Gi"
    assert str(ZERO + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1") - parse_quantity("100m")) == "900m"


decimals = st.decimals(min_value=-(10**12), max_value=10**12, places=6)


@given(decimals)
def test_plain_decimals_are_exact(value: Decimal) -> None:
    assert parse_quantity(format(value, "f")).nanos == int(value * NANO)


@given(
    st.integers(-MAX_NANOS, MAX_NANOS),
    st.sampled_from(["DecimalSI", "DecimalExponent"]),
)
def test_decimal_text_reads_back_equal(nanos: int, form: str) -> None:
    quantity = Quantity(nanos, form)
    assert parse_quantity(str(quantity)) == quantity
    assert str(parse_quantity(str(quantity))) == str(quantity)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_binary_text_reads_back_equal(units: int) -> None:
    quantity = Quantity(units * NANO, "BinarySI")
    assert parse_quantity(str(quantity)) == quantity


@given(decimals, decimals)
def test_order_follows_the_values(left: Decimal, right: Decimal) -> None:
    first, second = parse_quantity(format(left, "f")), parse_quantity(format(right, "f"))
    assert (first < second) == (left < right)
    assert (first == second) == (left == right)
    assert first + second == parse_quantity(format(left + right, "f"))


@given(st.text(max_size=20))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(QuantityInvalid):
        assert parse_quantity(str(parse_quantity(text))) == parse_quantity(text)
