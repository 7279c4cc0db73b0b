"""JSONPath as kubectl's library reads it, and the cells that are made of what it finds."""

import contextlib
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kinds.check.budget import Budget, BudgetSpent, within
from protocols.kinds.custom.printing.columns import LONGEST_CELL, MOST_COLUMNS, columns_of, format_value
from protocols.kinds.custom.printing.jsonpath import MOST, JsonPath, PathFails, PathInvalid

OBJECT: dict[str, Any] = {
    "a": {"b.c": [{"n": "x", "v": 1}, {"n": "y", "v": 3, "w": {"z": True}}]},
    "l": [3, 4, 5],
    "f": 1.5,
    "deep": {"n": "d", "more": [{"n": "e"}]},
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b\\.c[0].n", ["x"]),
        (".a['b.c'][1].w.z", [True]),
        (".a['b\\.c'][1].n", ["y"]),
        ('.a["b.c"][?(@.n=="y")].w.z', [True]),
        (".a.b\\.c[?(@.v!=1)].n", ["y"]),
        (".a.b\\.c[?(@.v>=3)].n", ["y"]),
        (".a.b\\.c[?(@.v<3)].n", ["x"]),
        (".a.b\\.c[?(@.n > 'x')].v", [3]),
        (".a.b\\.c[?(@.w)].n", ["y"]),
        (".a.b\\.c[?(@.w.z==true)].n", ["y"]),
        (".a.b\\.c[?(@.v==@.v)].n", ["x", "y"]),
        (".a.b\\.c[?(@.v==1.0)].n", []),
        (".a.b\\.c[?(@.n==1)].n", []),
        (".l[?(@>3)]", [4, 5]),
        (".a.b\\.c[*].n", ["x", "y"]),
        (".l[-1]", [5]),
        (".l[-1:]", [5]),
        (".l[1:]", [4, 5]),
        (".l[:2]", [3, 4]),
        (".l[0:3:2]", [3, 5]),
        (".l[0,2]", [3, 5]),
        (".l[*]", [3, 4, 5]),
        (".l[9]", []),
        (".l[3]", []),
        (".l[1:1]", []),
        (".f[0]", []),
        (".a[?(@.n)]", []),
        (".x.y", []),
        (".none", [None]),
        (".none.x", []),
        (".deep..n", ["d", "e"]),
        (".deep.*", ["d", [{"n": "e"}]]),
        ("..z", [True]),
        (".", [OBJECT]),
    ],
)
def test_json_paths(path: str, found: Any) -> None:
    assert JsonPath(path).values(OBJECT) == found


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[]", ".a[-]", "{.a}", ".a b", ".l[?(@.x == y)]", ".l[?(]"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(PathInvalid, match="is an invalid path"):
        JsonPath(path)


PIECES = (
    ".a",
    ".l",
    "[0]",
    "[*]",
    "..",
    "..n",
    "[?(@.n)]",
    '[?(@.v=="x")]',
    "[-2:]",
    "[0,1]",
    "['a']",
    ".*",
    "$",
    "@",
    "[",
    ")",
)
VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.text("xy", max_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("alnv"), inner, max_size=3),
    max_leaves=15,
)


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), VALUES)
def test_any_path_finds_something_or_nothing(path: str, value: Any) -> None:
    with contextlib.suppress(PathInvalid):
        assert len(JsonPath(path).values(value)) <= MOST


def test_a_path_that_doubles_what_it_meets_ends() -> None:
    deep: Any = 1
    for level in range(60):
        deep = {"a": deep, "b": [deep]} if level < 12 else {"a": deep}
    with pytest.raises(PathFails):
        JsonPath("..*..*..*..*").found(deep)


@pytest.mark.parametrize("path", [".l[" + ",".join("0" * 1_000) + "][*]", ".l[0][?(@>=0)]", ".l[0][:]", ".l[0].*"])
def test_step_that_multiplies_values_ends_within_its_bound(path: str) -> None:
    tracemalloc.start()
    with pytest.raises(PathFails):
        JsonPath(path).found({"l": [list(range(MOST + 1))]})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 * MOST


@pytest.mark.parametrize("path", ["..a", ".l[" + ",".join(["1:1"] * 1_000) + "]", ".l[?(@.a.b==1)]", ".a" * 2_000])
def test_values_visited_count_against_the_budget(path: str) -> None:
    obj = {"l": [{"a": n} for n in range(5_000)]}
    with within(Budget(math.inf, 1_000)), pytest.raises(BudgetSpent):
        JsonPath(path).found(obj)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("x", "x"),
        (None, "<no value>"),
        (True, "true"),
        (3, "3"),
        (3.0, "3"),
        (1.5, "1.5"),
        (-0.25, "-0.25"),
        (0.00012, "0.00012"),
        (0.00001, "1e-05"),
        (123456.5, "123456.5"),
        (1234567.5, "1.2345675e+06"),
        (1e300, "1e+300"),
        ({"b": 1, "a": ["<x>", None]}, '{"a":["\\u003cx\\u003e",null],"b":1}'),
    ],
)
def test_values_are_printed_as_gos(value: Any, told: str) -> None:
    assert format_value(value) == told


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_number_reads_as_the_same(value: float) -> None:
    assert math.isclose(float(format_value(value)), value, rel_tol=1e-15)


def cell(kind: str, value: Any) -> Any:
    column = columns_of(({"name": "A", "type": kind, "jsonPath": ".v"},))[1]
    return column.cell({"v": value})


def test_cells_have_the_type_of_their_column() -> None:
    assert [cell("integer", value) for value in (3, 3.9, "3", True, None)] == [3, 3, None, None, None]
    assert [cell("number", value) for value in (3, 3.5, "x")] == [3.0, 3.5, None]
    assert [cell("boolean", value) for value in (True, 1)] == [True, None]
    assert [cell("string", value) for value in (3, None, [1])] == ["3", "<no value>", "[1]"]
    assert [cell("date", value) for value in ("soon", 3)] == ["<invalid>", None]
    assert cell("date", "2020-01-01T00:00:00Z").endswith("y") or "d" in cell("date", "2020-01-01T00:00:00Z")


def test_cell_and_number_of_columns_are_bounded() -> None:
    assert cell("string", "x" * LONGEST_CELL) == "x" * LONGEST_CELL
    assert cell("string", ["x" * LONGEST_CELL]) == '["' + "x" * (LONGEST_CELL - 2) + "..."
    many = tuple({"name": f"c{n}", "type": "string", "jsonPath": ".a"} for n in range(500))
    assert [column.name for column in columns_of(many)] == ["Name", *(f"c{n}" for n in range(MOST_COLUMNS))]


def test_columns_end_at_the_first_that_nobody_can_read() -> None:
    wanted = [
        {"name": name, "type": "string", "jsonPath": path} for name, path in (("A", ".a"), ("B", ".b["), ("C", ".c"))
    ]
    assert [column.name for column in columns_of(tuple(wanted))] == ["Name", "A"]
    assert [column.name for column in columns_of(())] == ["Name", "Age"]
