"""Container logs as readers see them: joined, filtered, cut, and whole across rotation."""

import asyncio
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.podworker.endpoint import requests
from actors.podworker.endpoint import requests as query
from actors.podworker.endpoint.errors import RequestInvalid, StreamTargetMissing
from actors.podworker.endpoint.requests import PodTarget
from actors.podworker.logs import reader
from actors.podworker.logs.reader import CHUNK, LogOptions, Renderer, backwards, read_log, stamp_ns, tail_offset
from protocols.kinds import views
from protocols.messages.pleg import ContainerStatus, PodStatus

WHERE = PodTarget("default", "p", "a")


def line(second: int, content: str, tag: str = "F", stream: str = "stdout") -> bytes:
    return f"2026-01-02T03:04:{second:02}.000000001Z {stream} {tag} {content}\n".encode()


def shown(file: bytes, **options: object) -> bytes:
    return Renderer(LogOptions(**options)).feed(file)  # type: ignore[arg-type]  # the options under test


pieces = st.lists(st.tuples(st.sampled_from("PF"), st.text("xy", max_size=3)), max_size=30)


def file_of(parts: list[tuple[str, str]]) -> bytes:
    return b"".join(line(n, text, tag) for n, (tag, text) in enumerate(parts))


@given(pieces, st.integers(1, 40))
def test_pieces_join_however_the_file_is_read(parts: list[tuple[str, str]], size: int) -> None:
    wanted = "".join(text + "\n" * (tag == "F") for tag, text in parts).encode()
    file, renderer = file_of(parts), Renderer(LogOptions())
    assert b"".join(renderer.feed(file[at : at + size]) for at in range(0, len(file), size)) == wanted


@given(pieces, st.integers(0, 8))
def test_the_tail_is_the_last_output_lines(parts: list[tuple[str, str]], count: int) -> None:
    file = file_of(parts)
    everything = shown(file).splitlines(keepends=True)
    if parts and parts[-1][0] == "P" and shown(file)[-1:] in (b"", b"\n"):
        everything.append(b"")  # an output line of no content so far counts as one
    rest = file[tail_offset(io.BytesIO(file), count, len(file)) :]
    assert shown(rest) == b"".join(everything[-count:] if count else [])


def test_the_tail_of_a_large_file_is_found_across_blocks() -> None:
    file = b"".join(line(n % 60, f"{n} " + "x" * 5000) for n in range(100))
    assert [part.split()[0] for part in shown(file[tail_offset(io.BytesIO(file), 30, len(file)) :]).splitlines()] == [
        str(n).encode() for n in range(70, 100)
    ]


def test_lines_that_are_none_are_skipped() -> None:
    assert shown(b"\n\xff\xfe\nnonsense\n" + line(1, "a") + b"2026-01-01T00:00:00Z stdout F\n") == b"a\n\n"


def test_unknown_flags_are_ignored_and_streams_chosen() -> None:
    file = line(1, "out", "F:new") + line(2, "err", stream="stderr")
    assert shown(file) == b"out\nerr\n"
    assert shown(file, stream="stderr") == b"err\n"


def test_since_keeps_or_drops_whole_output_lines() -> None:
    file = line(1, "old ", "P") + line(5, "tail", "F") + line(6, "new")
    assert shown(file, since_ns=stamp_ns(b"2026-01-02T03:04:03Z")) == b"new\n"


def test_timestamps_once_an_output_line_and_the_limit_cuts_bytes() -> None:
    file = line(1, "a", "P") + line(2, "b")
    assert shown(file, timestamps=True) == b"2026-01-02T03:04:01.000000001Z ab\n"
    for stamp, wanted in (("01.5+01:00", "01.500000000+01:00"), ("01Z", "01.000000000Z"), ("x", "x")):
        line_of = f"2026-01-02T03:04:{stamp} stdout F a\n".encode()
        assert shown(line_of, timestamps=True) == f"2026-01-02T03:04:{wanted} a\n".encode()
    renderer = Renderer(LogOptions(limit=2))
    assert (renderer.feed(file), renderer.full) == (b"ab", True)


@pytest.mark.parametrize(
    ("stamp", "wanted"),
    [
        (b"1970-01-01T00:00:01Z", 1_000_000_000),
        (b"1970-01-01T00:00:00.5Z", 500_000_000),
        (b"1970-01-01T01:00:00.000000001+01:00", 1),
        (b"1970-13-01T00:00:00Z", None),
        (b"yesterday", None),
    ],
)
def test_stamps(stamp: bytes, wanted: int | None) -> None:
    assert stamp_ns(stamp) == wanted


@pytest.fixture
def log() -> Iterator[Path]:
    """Path of a container's log."""
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as directory:
        yield Path(directory) / "0.log"


def follow(log: Path, steps: Iterable[tuple[Callable[[], object], bytes]], limit: int = -1, tail: int = -1) -> bytes:
    """Read while `steps` run; each is done once the ones before have been seen. The container ends after the last."""

    async def run() -> bytes:
        options, alive, got = LogOptions(follow=True, limit=limit, tail=tail), True, b""

        async def read() -> None:
            nonlocal got
            async with aclosing(read_log(str(log), options, lambda: alive)) as chunks:
                async for chunk in chunks:
                    got += chunk

        async with asyncio.timeout(60):
            reader = asyncio.create_task(read())
            for step, seen in steps:
                step()
                while seen and seen not in got:  # noqa: ASYNC110 # the reader has no event to offer
                    await asyncio.sleep(0.005)
            alive = False
            await reader
        return got

    return asyncio.run(run())


def append(path: Path, data: bytes) -> Callable[[], None]:
    def step() -> None:
        with path.open("ab") as file:
            file.write(data)

    return step


async def test_log_that_grows_while_it_is_read_ends(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a client that reads more slowly than the container writes has no end of it, and more than its last lines."""
    count = CHUNK // 20
    more = append(log, line(1, "a") * count)
    more()

    def growing(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
        more()
        yield from backwards(file, end)

    monkeypatch.setattr(reader, "backwards", growing)
    for tail in (-1, count):
        got = b""
        async with asyncio.timeout(60), aclosing(read_log(str(log), LogOptions(tail=tail), lambda: True)) as chunks:
            async for chunk in chunks:
                got += chunk
                await asyncio.to_thread(more)
        assert len(got.splitlines()) == count


def test_following_across_rotation_loses_nothing(log: Path) -> None:
    old = log.with_suffix(".log.1")
    steps = [
        (append(log, line(1, "one")), b"one"),
        (lambda: os.rename(log, old), b""),
        (append(old, line(2, "two")), b"two"),  # the writer has not opened it anew yet
        (append(old, line(3, "three")), b""),
        (append(log, line(4, "four")), b"four"),
        (append(log, line(5, "five")), b""),
    ]
    assert follow(log, steps) == b"one\ntwo\nthree\nfour\nfive\n"


def test_following_a_file_that_is_cut_or_not_there_yet(log: Path) -> None:
    steps = [
        (lambda: None, b""),
        (append(log, line(1, "one, the longest of them")), b"them"),
        (lambda: log.write_bytes(line(2, "two")), b"two"),
    ]
    assert follow(log, steps) == b"one, the longest of them\ntwo\n"


def test_what_was_written_just_before_the_end_is_read(log: Path) -> None:
    log.write_bytes(line(1, "one"))
    assert follow(log, [(append(log, line(2, "two")), b"")], tail=0) in (b"two\n", b"")
    assert follow(log, [(append(log, line(3, "three")), b"")]) == b"one\ntwo\nthree\n"


def test_a_limit_ends_a_follower(log: Path) -> None:
    log.write_bytes(line(1, "abcdef"))
    assert follow(log, [(lambda: None, b"abc")], limit=3) == b"abc"


# which run of a container


def runs(*states: str) -> PodStatus:
    """Oldest first."""
    return PodStatus(
        "u",
        containers=tuple(
            ContainerStatus(id=str(n), sandbox_id="s", name="a", attempt=n, state=state, created_ns=n + 1)
            for n, state in enumerate(states)
        ),
    )


WAITING: views.ContainerStatus = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}


@pytest.mark.parametrize(
    ("states", "status", "previous", "wanted"),
    [
        (["running"], {}, False, "0"),
        (["exited", "running"], {}, False, "1"),
        (["exited", "running"], {}, True, "0"),
        (["exited", "created"], WAITING, False, "0"),
        (["exited", "exited"], WAITING, True, "1"),
        (["exited", "exited"], {}, True, "0"),
    ],
)
def test_the_run_a_log_is_of(states: list[str], status: views.ContainerStatus, previous: bool, wanted: str) -> None:
    assert requests.run_for_log(WHERE, runs(*states), status, previous).id == wanted


def test_no_log_says_why() -> None:
    with pytest.raises(RequestInvalid, match=r'previous terminated container "a" in pod "p" not found'):
        requests.run_for_log(WHERE, runs("running"), {}, True)
    cases: list[tuple[views.ContainerStatus | None, str]] = [
        (None, "not available"),
        ({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, "waiting to start: trying and failing to pull image"),
        ({"state": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}}, "terminated"),
    ]
    for shown, why in cases:
        with pytest.raises(RequestInvalid, match=f'^container "a" in pod "p" is {why}$'):
            requests.run_for_log(WHERE, None, shown, False)
    with pytest.raises(StreamTargetMissing):
        requests.running(WHERE, runs("exited"))


@pytest.mark.parametrize("bad", [{"tailLines": "-1"}, {"limitBytes": "x"}, {"sinceTime": "now"}, {"stream": "x"}])
def test_bad_queries_name_the_parameter(bad: dict[str, str]) -> None:
    (name,) = bad
    with pytest.raises(RequestInvalid, match=name):
        query.log_options(bad)
