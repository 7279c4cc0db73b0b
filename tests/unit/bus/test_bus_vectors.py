"""The examples of docs/reference/bus.md: byte for byte what the code writes, and what it reads."""

import ast
import re
from pathlib import Path
from typing import Any

import msgpack
import pytest

from protocols.bus import frames
from protocols.bus.types import Event

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "bus.md"
BLOCK = re.compile(r"\*\*(\w+)\*\*[^\n]*\n\n```frame\n(.+?)\n([0-9a-f\n]+)```", re.S)
PUBLISHED = {"event", "tick"}
ASKED = {"sync", "more", "request", "cast", "ping"}
KINDS: dict[str, type[Any]] = {
    "event": Event,
    **{name: getattr(frames, f"{name.capitalize()}Frame") for name in (ASKED | {"tick"})},
    **{name: getattr(frames, f"{name.capitalize()}Frame") for name in ("snapshot", "replay", "busy", "reply")},
    "failure": frames.FailureFrame,
    "pong": frames.PongFrame,
}


def examples() -> list[tuple[str, list[Any], bytes]]:
    found = []
    for name, notation, digits in BLOCK.findall(PAGE.read_text()):
        python = re.sub(r'bin"([0-9a-f]*)"', r'bytes.fromhex("\1")', notation)
        python = re.sub(r'bytes\.fromhex\("([0-9a-f]*)"\)', lambda m: repr(bytes.fromhex(m[1])), python)
        python = python.replace("true", "True").replace("false", "False")
        found.append((name, ast.literal_eval(python), bytes.fromhex(digits.replace("\n", ""))))
    return found


def decode(name: str, data: bytes) -> Any:
    if name in PUBLISHED:
        return frames.decode_published(data)
    return frames.decode_asked(data) if name in ASKED else frames.decode_answer(data)


def test_frames_every_kind_has_example() -> None:
    assert {name for name, _, _ in examples()} == set(KINDS)


@pytest.mark.parametrize(("name", "notation", "data"), examples())
def test_frames_example_reads_and_writes_as_documented(name: str, notation: list[Any], data: bytes) -> None:
    assert msgpack.unpackb(data) == notation
    frame = decode(name, data)
    assert type(frame) is KINDS[name]
    assert frames.encode(frame) == data


@pytest.mark.parametrize(("name", "notation", "data"), examples())
def test_frames_another_version_is_refused(name: str, notation: list[Any], data: bytes) -> None:
    notation[-1 if name == "event" else 1] = 2
    with pytest.raises(frames.UNDECODABLE):
        decode(name, msgpack.packb(notation))


@pytest.mark.parametrize(("name", "notation", "data"), examples())
def test_frames_truncated_is_refused(name: str, notation: list[Any], data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(frames.UNDECODABLE):
            decode(name, data[:length])
