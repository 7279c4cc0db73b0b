"""How `nodeplane trace` finds a pod and shows its life."""

import argparse
import asyncio
import re
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from protocols.messages.trace import Span
from protocols.process.layout import Layout, layout
from protocols.recording.frames import Header
from protocols.recording.writer import RecordingWriter
from protocols.trace import Collected, Row
from supervisor.cli.main import main
from supervisor.trace import collect, command
from supervisor.trace.collect import AT_ONCE, ask_nodes, mirror_of, newest
from supervisor.trace.draw import bar, draw, is_cut, label, milliseconds, parts, plain, title

SECOND = 10**9


def row(start: int, duration: int, depth: int = 0, **attributes: str) -> Row:
    return Row("step", "podworker", start, duration, depth, attributes, 1_700_000_000 * SECOND + start)


def test_parts_split_at_long_pauses_between_roots() -> None:
    rows = [row(0, 5 * SECOND), row(4 * SECOND, 1, 1), row(7 * SECOND, 1), row(11 * SECOND, 1)]
    assert [len(part) for part in parts(rows)] == [3, 1]
    assert list(parts([])) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [("a", "n/a"), ("pod/a", "n/a"), ("other/a", "other/a"), ("pod/other/a", "other/a"), ("pods/other/a", "other/a")],
)
def test_pod_may_be_named_as_it_is_printed(text: str, key: str) -> None:
    assert "/".join(command._key(argparse.Namespace(namespace="n"), text)) == key


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0.00 ms"), (520_000, "0.52 ms"), (104 * 10**6, "104 ms"), (3_200_000_000, "3.20 s")],
)
def test_milliseconds(nanoseconds: int, text: str) -> None:
    assert milliseconds(nanoseconds) == text


@pytest.mark.parametrize(
    ("start", "duration", "text"),
    [(0, 100, "██████████"), (50, 25, "     ██▌"), (100, 0, "         │"), (99, 1, "         │"), (0, 0, "│")],
)
def test_bar_fits_its_column(start: int, duration: int, text: str) -> None:
    assert bar(row(start, duration), 0, 100, 10) == text


@pytest.mark.parametrize(("name", "actor", "cut"), [("create", "apiserver-0", False), ("seen", "podworker", True)])
def test_trace_without_the_creation_is_cut(name: str, actor: str, cut: bool) -> None:
    assert is_cut([Row(name, actor, 0, 1, 0, {}, SECOND)]) is cut


def test_title_names_the_pod_and_is_safe_to_show() -> None:
    assert re.fullmatch(r"default/a  2023-11-1\S+ \S+, 5\.00 s", title([row(0, 5 * SECOND)], "default/a"))
    assert "\x1b" not in title([row(0, 1)], "a\x1b[2J")


def test_draw_fits_the_terminal() -> None:
    rows = [row(0, 100), row(10, 50, 1, resource="x" * 300), row(20, 0, 2, error="y")]
    for width in (40, 80, 200):
        assert all(len(line.plain) <= max(width, 60) for line in draw(rows, width))


def test_texts_of_plugins_cannot_steer_the_terminal() -> None:
    hostile = row(0, 1, resource="gpu\x1b[2J\n1", error="no\x1b]0;x\x07\nforged")
    assert "\x1b" not in label(hostile)
    assert not re.search(r"[\x00-\x1f]", "".join(line.plain for line in draw([hostile], 80)))
    assert "\x1b" not in str(plain([hostile]))


def test_newest_of_a_name_is_the_last_one_created() -> None:
    old, new = Span("old", "create", 1, 0, {"pod": "a"}), Span("new", "create", 2, 0, {"pod": "a"})
    assert newest([new, old]) == ("new",)


def test_newest_of_a_static_pod_has_its_mirror() -> None:
    mirror = Span("mirror", "create", 2, 0, {"pod": "a"})
    manifest = Span("manifest", "seen", 1, 0, {"pod": "a", "static": "True"})
    assert newest([manifest, mirror]) == ("mirror", "manifest")


def test_mirror_is_a_pod_that_a_node_created() -> None:
    mine = Span("u", "create", 1, 0, {"pod": "default/a", "user": "me"})
    nodes = Span("u", "create", 1, 0, {"pod": "default/a", "user": "system:node:n1"})
    assert mirror_of([mine]) == ""
    assert mirror_of([mine, nodes]) == "default/a"


async def test_nodes_are_asked_at_once_up_to_a_bound() -> None:
    asked, most = 0, 0

    async def answer(number: int) -> Collected:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0)
        asked -= 1
        return Collected([], number, ())

    found = await ask_nodes(answer(number) for number in range(3 * AT_ONCE))
    assert [each.missed for each in found] == list(range(3 * AT_ONCE))
    assert most == AT_ONCE


def recorded(path: Path) -> str:
    """Record two pods, the second of which takes 2 s longer to be created."""
    writer = RecordingWriter(path, Header("1.2.3", 1_000, "node-1", {}), 1 << 20)
    for at, (pod, seconds) in enumerate((("a", 1), ("b", 3)), 2):
        span = Span(f"uid-{pod}", "create", at * SECOND, seconds * SECOND, {"pod": f"default/{pod}"}, "apiserver-0", at)
        writer.happened("spans", "", msgspec.to_builtins(span), at * 1_000)
    writer.flush(9_000, 5)
    writer.close()
    return str(path)


def test_pods_of_a_recording_are_shown_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path / "r")
    assert main(["trace", "--replay", file, "pod/a"]) == 0
    assert "create" in capsys.readouterr().out
    assert main(["trace", "--replay", file, "--diff", "pod/a", "pod/b"]) == 0
    assert capsys.readouterr().out.startswith("B took 2.00 s longer: ")


@pytest.mark.parametrize("wrong", [["pod/none"], ["-f", "pod/a"]])
def test_recording_without_the_pod_or_followed_is_a_usage_error(tmp_path: Path, wrong: list[str]) -> None:
    assert main(["trace", "--replay", recorded(tmp_path / "r"), *wrong]) == 2


async def test_followed_step_of_a_process_that_was_silent_is_shown_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uid = "01234567-89ab-cdef-0123-456789abcdef"
    first, second = (Span(uid, name, 1, 1, {}, "podworker", id) for id, name in enumerate("ab", 1))
    answers = [
        Collected([first], 0, ()),
        Collected([], 0, ("podworker",)),
        Collected([first], 0, ()),
        Collected([], 0, ()),
        Collected([first, second], 0, ()),
    ]

    class Source:
        async def pod(self, uid: str, skip: Collection[str] = ()) -> Collected:
            return answers.pop(0)

    @asynccontextmanager
    async def plane(layout: Layout) -> AsyncIterator[list[Source]]:
        yield [Source()]

    monkeypatch.setattr(collect, "plane", plane)
    monkeypatch.setattr(collect, "FOLLOW_S", 0.0)
    shown = list[str]()
    async for rows in collect.follow(layout(str(tmp_path)), "default", uid):
        shown += [row.name for row in rows]
        if not answers:
            break
    assert shown == ["a", "b"]
