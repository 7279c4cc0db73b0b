"""Spans in the ring of an actor, and the answers it gives."""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Coroutine

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from protocols.messages.trace import Span, SpanBatch, SpanQuery
from protocols.trace import RECORDER, SpanRecorder, clock, from_wall, record, span, wall_offset
from protocols.trace.recorder import LONGEST

POD, OTHER = "0b9d8e5e-3f6f-4c7e-9a66-9c7b4a1c2d3e", "6a0f0a52-8d9f-4d41-8a3c-2f1f5c7b9e10"


def made(pod: str, number: int) -> Span:
    return Span(pod, f"step {number}", number, 1)


def decoded(recorder: SpanRecorder, query: SpanQuery, epoch: int = 1) -> SpanBatch:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(recorder.answer(query, epoch)), type=SpanBatch)


def newest() -> Span:
    batch = decoded(RECORDER, SpanQuery(epoch=1, after=RECORDER.recorded - 1))
    return batch.spans[-1]


def test_recorder_full_drops_the_oldest_and_counts_it() -> None:
    recorder = SpanRecorder(retained=3)
    for number in range(5):
        recorder.add(made(POD, number))
    assert recorder.dropped == 2
    assert [each.start_ns for each in decoded(recorder, SpanQuery(pod=POD)).spans] == [2, 3, 4]
    assert decoded(recorder, SpanQuery()).missed == 2


def test_recorder_is_bounded_by_bytes() -> None:
    recorder = SpanRecorder(size=1000)
    for number in range(100):
        recorder.add(Span(POD, "x" * 100, number, 0))
    kept = decoded(recorder, SpanQuery()).spans
    assert [each.start_ns for each in kept] == list(range(100 - len(kept), 100))
    assert 500 < sum(len(msgspec.msgpack.encode(each)) for each in kept) <= 1000


def test_answer_about_a_pod_leaves_out_others() -> None:
    recorder = SpanRecorder()
    for number in range(6):
        recorder.add(made((POD, OTHER, POD[:-1])[number % 3], number))
    assert [each.start_ns for each in decoded(recorder, SpanQuery(pod=OTHER)).spans] == [1, 4]
    assert [each.start_ns for each in decoded(recorder, SpanQuery(pod=POD[:-1])).spans] == [2, 5]


def test_answer_of_another_epoch_begins_anew() -> None:
    recorder = SpanRecorder()
    recorder.add(made(POD, 0))
    assert len(decoded(recorder, SpanQuery(epoch=2, after=1), epoch=3).spans) == 1
    assert len(decoded(recorder, SpanQuery(epoch=3, after=1), epoch=3).spans) == 0


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 8), st.integers(1, 5))
def test_reader_by_position_gets_each_span_once_or_counts_it(bursts: list[int], retained: int, batch: int) -> None:
    recorder, query = SpanRecorder(retained, batch), SpanQuery()
    number, got, missed = 0, [], 0
    for burst in [*bursts, 0, 0, 0, 0, 0, 0, 0, 0]:
        for _ in range(burst):
            recorder.add(made(POD, number))
            number += 1
        answer = decoded(recorder, query)
        got += [each.start_ns for each in answer.spans]
        missed += answer.missed
        assert answer.more == (answer.position < recorder.recorded)
        query = SpanQuery(epoch=answer.epoch, after=answer.position)
    assert got == sorted(set(got))
    assert len(got) + missed == number


def test_record_shortens_texts_of_plugins() -> None:
    record(POD, "x" * 1000, clock(), device="y" * 1000)
    assert len(newest().name) == LONGEST
    assert len(newest().attributes["device"]) == LONGEST


def test_record_without_a_pod_records_nothing() -> None:
    before = RECORDER.recorded
    record("", "sandbox", clock())
    assert RECORDER.recorded == before


def test_record_of_a_start_in_the_future_has_no_negative_duration() -> None:
    record(POD, "runtime event", clock() + 10**12)
    assert newest().duration_ns == 0


def test_record_of_a_start_in_the_future_is_at_its_end() -> None:
    record(POD, "runtime event", 500, 400)
    assert (newest().start_ns, newest().duration_ns) == (400, 0)


def test_record_of_a_text_that_is_no_utf8_escapes_it() -> None:
    record(POD, "volumes", clock(), error=b"/no/\xff".decode(errors="surrogateescape"))
    assert newest().attributes == {"error": "/no/\\udcff"}


def test_record_of_an_endless_uid_records_nothing() -> None:
    before = RECORDER.recorded
    record("u" * 1000, "sandbox", clock())
    assert RECORDER.recorded == before


def test_span_that_fails_has_the_error() -> None:
    with contextlib.suppress(ValueError), span(POD, "image", image="a") as it:
        it.attributes["size"] = 5
        raise ValueError("no such thing")
    assert newest().attributes == {"image": "a", "size": "5", "error": "no such thing"}


def test_from_wall_inverts_the_offset() -> None:
    assert abs(from_wall(time.time_ns()) - clock()) < 10**9
    assert abs(clock() + wall_offset() - time.time_ns()) < 10**9


def test_span_without_a_pod_belongs_to_the_block_around_it() -> None:
    before = RECORDER.recorded
    with span("", "Allocate"):
        pass
    assert RECORDER.recorded == before
    with span(POD, "admit"), span("", "Allocate"):
        pass
    allocate, admit = decoded(RECORDER, SpanQuery(epoch=1, after=before)).spans
    assert (allocate.pod, allocate.parent) == (POD, admit.id)
    assert allocate.id != admit.id


async def test_span_is_the_parent_of_tasks_started_in_it() -> None:
    before = RECORDER.recorded

    async def call() -> None:
        with span("", "NodePrepareResources"):
            pass

    with span(POD, "prepare claims"):
        await asyncio.gather(call(), call())
    one, two, whole = decoded(RECORDER, SpanQuery(epoch=1, after=before)).spans
    assert {one.parent, two.parent} == {whole.id}


def test_span_of_a_coroutine_closed_elsewhere_is_left_out() -> None:
    async def wait() -> None:
        with span(POD, "admit"):
            await asyncio.sleep(60)

    async def start() -> Coroutine[None, None, None]:
        coroutine = wait()
        contextvars.copy_context().run(coroutine.send, None)
        return coroutine

    before = RECORDER.recorded
    asyncio.run(start()).close()
    assert RECORDER.recorded == before


def test_record_of_another_pod_has_no_parent() -> None:
    with span(POD, "admit"):
        record(OTHER, "sandbox", clock())
        assert newest().parent == 0


def test_answer_about_a_text_has_the_spans_that_contain_it() -> None:
    recorder = SpanRecorder()
    for name in ("default/a", "default/b"):
        recorder.add(Span(POD, "seen", 1, 0, {"pod": name}))
    found = decoded(recorder, SpanQuery(text="default/b")).spans
    assert [each.attributes["pod"] for each in found] == ["default/b"]
