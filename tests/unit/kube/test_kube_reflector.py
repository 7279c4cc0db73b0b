"""Where a copy of a collection resumes, and how long it waits: over any course of events."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kube.errors import ApiError, EventInvalid
from protocols.kube.meta import Object
from protocols.kubeclient import client
from protocols.kubeclient.client import event_of, lines_of
from protocols.kubeclient.reflector import AWAY_MOST_S, MOST_S, InitialEvents, Next, Reflector

lasted = st.floats(0, 100)
steps = st.one_of(
    st.tuples(st.just("listed"), st.integers(1, 99).map(str)),
    st.tuples(st.just("moved"), st.integers(1, 99).map(str)),
    st.tuples(st.sampled_from(["ended", "broken", "expired"]), lasted),
    st.tuples(st.sampled_from(["unstreamed", "away"]), st.none()),
)


@given(st.lists(steps, max_size=60))
def test_only_an_expired_position_leads_to_a_list(course: list[tuple[str, str | float | None]]) -> None:
    reflector, position, streams = Reflector(), "", True
    for what, value in course:
        if (what == "moved" and not position) or (what in ("unstreamed", "away") and position):
            continue
        pause = getattr(reflector, what)(*([] if value is None else [value]))
        position = "" if what == "expired" else str(value) if what in ("listed", "moved") else position
        streams = what == "listed" or (streams and what != "unstreamed")
        assert reflector.position == position
        assert reflector.next is (Next.WATCH if position else Next.STREAM if streams else Next.LIST)
        assert pause is None or 0.0 <= pause <= (AWAY_MOST_S if what == "away" else MOST_S)


@given(st.lists(st.sampled_from(["ended", "broken"]), min_size=12, max_size=30))
def test_failures_in_a_row_wait_longer_and_longer(course: list[str]) -> None:
    reflector = Reflector(position="1")
    pauses = [getattr(reflector, what)(0.1) for what in course]
    assert pauses == sorted(pauses)
    assert pauses[0] == 0.0, "the first retry is immediate: another server may be there"
    assert pauses[-1] == MOST_S


def test_a_list_that_works_does_not_clear_the_wait_between_lists() -> None:
    reflector = Reflector()
    pauses = []
    for _ in range(10):
        reflector.listed("5")
        pauses.append(reflector.expired(0.2))
    assert pauses[-1] == MOST_S
    assert reflector.lists == 10


def test_a_steady_watch_clears_the_wait() -> None:
    reflector = Reflector(position="1", failures=9)
    assert reflector.broken(1.5) == 0.0
    assert Reflector(position="1", failures=9).ended(1.5) == 0.0
    assert Reflector(position="1", failures=9).expired(60) == 0.0


def test_a_list_without_a_version_is_no_position() -> None:
    reflector = Reflector()
    reflector.broken(0.0)
    assert reflector.listed("") > 0
    assert reflector.next is not Next.WATCH


def added(name: str, version: int) -> Object:
    return {"type": "ADDED", "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}


BOOKMARK: Object = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
END: Object = {
    "type": "BOOKMARK",
    "object": {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}},
}
initial = st.lists(
    st.one_of(
        st.just(BOOKMARK),
        st.builds(
            lambda kind, name, version: {**added(name, version), "type": kind},
            st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.sampled_from("abc"), st.integers(1, 9),
        ),
    )
)  # fmt: skip


@given(initial)
def test_initial_events_end_only_with_their_bookmark(events: list[Object]) -> None:
    gathered, held = InitialEvents(), dict[str, Object]()
    for event in events:
        assert not gathered.take(event)
        name = event["object"]["metadata"].get("name")
        if event["type"] == "DELETED":
            held.pop(name, None)
        elif name:
            held[name] = event["object"]
    assert gathered.take(END)
    assert gathered.objects == held


def collect(chunks: list[bytes]) -> list[bytes]:
    async def feed() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def gather() -> list[bytes]:
        return [line async for line in lines_of(feed())]

    return asyncio.run(gather())


@given(st.lists(st.binary(max_size=5).filter(lambda line: b"\n" not in line), max_size=5), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert collect(chunks) == lines


def test_a_cut_off_last_line_is_dropped() -> None:
    assert collect([b"a\nb"]) == [b"a"]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocols.kubeclient.client.LINE_LIMIT", 10)
    with pytest.raises(EventInvalid, match="larger than 10"):
        collect([b"x" * 6, b"x" * 6])


def test_error_events_carry_their_status() -> None:
    with pytest.raises(ApiError) as caught:
        event_of(b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"a\\nb"}}')
    assert (caught.value.code, caught.value.reason, str(caught.value)) == (410, "Expired", "a b")


@given(st.binary(max_size=40))
def test_any_line_is_an_event_or_refused(line: bytes) -> None:
    with pytest.raises((EventInvalid, ApiError)):
        event_of(line)


async def test_failure_without_end_is_read_up_to_its_bound() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 1000

    assert await client._beginning(endless(), 99_500) == b"x" * 99_500
    assert sent == 100
