"""The reader of YAML: aliases within bounds, and texts that end or hold a process that reads them otherwise."""

import contextlib
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from protocols.kube.yaml_text import Document, NotPlain, read_documents, read_yaml

MOST = 1 << 20
GROWING = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
MERGING = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))
CHAIN = "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 1000))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        f"a: {'[' * 100_000}{']' * 100_000}",
        "{a: " * 1_000_000,
        f"a0: &a0 x\n{GROWING}",
        f"a0: &a0 {{x: 1}}\n{MERGING}",
        f"a0: &a0 x\n{CHAIN}",
        "a: &a [*a]",
        "a: &a {<<: *a}",
        "a: *b",
        "<<: 3",
        f"a: !!int 1{':59' * 200_000}",
        f"a: !!float 1{':59' * 200_000}",
        f"a: 0x{'f' * 2_000_000}",
        f"a: {'9' * 2_000_000}",
        b"\xff",
    ],
    ids=lambda text: str(text[:12]),
)
def test_hostile_text_is_refused_at_once(text: str | bytes) -> None:
    began = time.process_time()
    with pytest.raises(yaml.YAMLError):
        read_yaml(text, MOST)
    assert time.process_time() - began < 5


def test_aliases_and_merges_have_yamls_meaning() -> None:
    text = "a: &x {k: 1, l: [2]}\nb: *x\nc: {<<: [*x, {k: 3, m: 4}], l: 7}\nd: &s <<\ne: *s\nf: [<<]"
    assert read_yaml(text, MOST).value == yaml.safe_load(text.replace("&s <<", "&s '<<'").replace("[<<]", "['<<']"))


def test_aliases_are_refused_where_nobody_allows_them() -> None:
    for text in ("a: &a 1\nb: *a", "a: {<<: {b: 1}}"):
        with pytest.raises(NotPlain):
            read_yaml(text)


def test_documents_are_told_apart() -> None:
    assert [document.value for document in read_documents("a: 1\n---\n---\nb: 2")] == [{"a": 1}, None, {"b": 2}]
    assert (read_documents(""), read_yaml("")) == ([], Document(None, []))
    with pytest.raises(NotPlain, match="single document"):
        read_yaml("a: 1\n---\nb: 2")


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("abc <&*:", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(NESTED, NESTED)
def test_reads_what_the_library_reads(shared: object, other: object) -> None:
    text = yaml.safe_dump([shared, other, shared, {"a": shared}])
    assert read_yaml(text, MOST).value == yaml.safe_load(text)


@given(st.text("ab:&*<>-[]{}, \n\"'!|1", max_size=60))
def test_any_text_is_a_value_or_an_error_of_the_library(text: str) -> None:
    with contextlib.suppress(yaml.YAMLError):
        read_yaml(text, MOST)
