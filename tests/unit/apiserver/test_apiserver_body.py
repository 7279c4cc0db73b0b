"""Bodies as they arrive: YAML that would explode or hang, numbers as Go reads them, agents that are no text."""

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.encoding.decode import decode_json, decode_object, decode_yaml
from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.request.query import integer, request_seconds, resource_version, write_options
from actors.apiserver.http.connection.requests import BODY_LIMIT
from actors.apiserver.http.connection.responses import Reply
from protocols.kube.errors import StatusError
from protocols.kube.jsons import DEPTH_LIMIT
from protocols.kube.yaml_text import read_yaml

leaves = st.none() | st.booleans() | st.integers() | st.text("ab:~-#01 \n'\"é", max_size=8)
trees = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab:~1"), inner), max_leaves=10)


@given(trees)
def test_yaml_reads_what_it_wrote(value: Any) -> None:
    assert read_yaml(yaml.safe_dump(value)).value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("a: 010", {"a": 8}),
        ("1: x\ntrue: y", {"1": "x", "true": "y"}),
        ("a: !!str 1", {"a": "1"}),
    ],
)
def test_yaml_values(text: str, value: Any) -> None:
    assert read_yaml(text).value == value


@pytest.mark.parametrize("text", ["[" * 500_000, "- " * 500_000, "? " * 500_000, "{a: " * 100_000, "a: " * 9_000])
def test_nesting_is_refused_before_it_hurts(text: str) -> None:
    """libyaml's composer dies of the deepest of these, and its scanner takes minutes over the first."""
    began = time.process_time()
    with pytest.raises(BadRequest):
        decode_yaml(text.encode())
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "text", ["a: &b 1\nc: *b", "<<: {a: 1}", "a: !!binary aGk=", "a: .inf", "{[1]: 2}", "--- a\n--- b"]
)
def test_yaml_that_json_cannot_say(text: str) -> None:
    with pytest.raises(BadRequest, match="error decoding patch"):
        decode_yaml(text.encode())


def test_deep_json_is_refused_by_every_reader() -> None:
    deep = b'{"a":' * 300 + b"1" + b"}" * 300
    for read in (decode_json, decode_yaml):
        with pytest.raises(StatusError) as caught:
            read(deep)
        assert caught.value.code == 400


def test_as_deep_as_allowed_is_read() -> None:
    assert decode_json(b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT)
    with pytest.raises(BadRequest):
        decode_json(b"[" * (DEPTH_LIMIT + 1) + b"]" * (DEPTH_LIMIT + 1))


def test_unreadable_bodies_are_shown_shortly() -> None:
    text = r"must be of type Pod\): couldn't get version/kind; json parse error: .* \({}\)"
    for body, shown in ((b"", "<empty>"), (b"{x", "{x"), (b"\xff" * BODY_LIMIT, "(ff){30} \\.\\.\\.")):
        with pytest.raises(BadRequest, match=text.format(shown)):
            decode_object(body, "application/json", "Pod")


@pytest.mark.parametrize("text", ["x", "1.5", "９", "", "-", "9" * 5000, "-9223372036854775809"])
def test_integers_are_refused_in_the_words_of_go(text: str) -> None:
    with pytest.raises(BadRequest, match=r"strconv.ParseInt: parsing \".*\": (invalid syntax|value out of range)"):
        integer(text)


@given(st.text(max_size=30) | st.text("0123456789+-.hmsnu", max_size=80))
def test_no_text_breaks_the_readers_of_numbers(text: str) -> None:
    for read in (integer, resource_version, lambda text: request_seconds({"timeout": text}, 60.0)):
        try:
            read(text)
        except BadRequest:
            continue


def test_how_long_a_client_waits() -> None:
    for text, seconds in (("", 60), ("0", 60), ("3s", 3), ("1h", 60), ("1m0.5s", 60), ("500ms", 0.5), ("-1s", 60)):
        assert request_seconds({"timeout": text}, 60.0) == seconds
    for text, fault in (("soon", "invalid"), ("1.5", "missing unit in")):
        with pytest.raises(BadRequest, match=f'time: {fault} duration "{text}"'):
            request_seconds({"timeout": text}, 60.0)


def test_an_agent_that_is_no_text_owns_fields_all_the_same() -> None:
    assert write_options({}, [], "\udcff\udcfecurl\n/8").agent == "curl"
    assert len(write_options({}, [], "é" * 200).agent.encode()) == 128


def test_repeated_warnings_are_sent_once() -> None:
    lines = Reply(b"", warnings=["a", "b", "a"]).lines()
    assert [value for name, value in lines if name == "Warning"] == ['299 - "a"', '299 - "b"']


def test_warnings_are_one_line_of_ascii() -> None:
    reply = Reply(b"", warnings=['unknown field "a\0\x1b\n\x7fé"'])
    assert dict(reply.lines())["Warning"] == '299 - "unknown field \\"a?? ??\\""'
