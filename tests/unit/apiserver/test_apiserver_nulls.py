"""Nulls in objects are read as Go's decoder reads them; no whole number is too long to answer."""

from typing import Any

import pytest

from actors.apiserver.table import TABLE
from protocols.kinds.custom.printing.jsonpath import JsonPath, PathInvalid
from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.shape import ANY, JSON, LIST, MAP, STRUCT, Shape
from protocols.kube.formats import duration_nanos
from protocols.kube.quantity import parse_quantity
from protocols.kube.yaml_text import NotPlain, read_yaml


def nulls(shape: Shape, depth: int) -> Any:
    """An object whose every leaf is null, in lists and maps too."""
    if shape.form == STRUCT and depth:
        return {name: nulls(field, depth - 1) for name, field in shape.fields.items()}
    if shape.form == LIST and depth:
        return [None, nulls(shape.item, depth - 1)] if shape.item else []
    if shape.form == MAP and depth:
        return {"a": None, "b": nulls(shape.item, depth - 1)} if shape.item else {}
    return None


def has_null(value: Any, shape: Shape) -> bool:
    if value is None:
        return shape.form not in (JSON, ANY, "time", "microtime")
    if shape.form == STRUCT:
        return any(
            has_null(part, shape.fields[name])
            for name, part in value.items()
            if part is not None or name not in shape.present
        )
    if shape.item is None or shape.form not in (LIST, MAP):
        return False
    parts = value if isinstance(value, list) else value.values()
    return any(has_null(part, shape.item) for part in parts)


def test_no_null_passes_the_walk() -> None:
    for row in TABLE.built_in:
        if row.shape:
            obj = nulls(row.shape, 5)
            clean(obj, row.shape)
            assert not has_null(obj, row.shape), row.gvr


@pytest.mark.parametrize(
    "text", ["a: 0x" + "f" * 5000, "a: 0" + "7" * 9000, "0b" + "1" * 2000 + ": 1", "a: " + "9" * 5000]
)
def test_whole_number_of_thousands_of_digits_in_yaml_is_refused(text: str) -> None:
    with pytest.raises(NotPlain):
        read_yaml(text)


@pytest.mark.parametrize("text", [".a[" + "9" * 5000 + "]", ".a[-:1]", ".a[:-]"])
def test_index_that_is_no_number_is_no_path(text: str) -> None:
    with pytest.raises(PathInvalid):
        JsonPath(text)


def test_duration_beyond_numbers_is_none() -> None:
    for text in ("9" * 400 + "h", "9" * 5000 + " days"):
        with pytest.raises(ValueError, match=r"9{9}|digits"):
            duration_nanos(text)


def test_quantities_have_every_order() -> None:
    small, same, large = parse_quantity("1"), parse_quantity("1000m"), parse_quantity("2k")
    assert [small <= large, large >= small, large > small, small >= large] == [True, True, True, False]
    assert [small <= same, small >= same, small > same] == [True, True, False]
