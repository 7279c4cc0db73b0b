"""Spans that the API server records of pods, and of nothing else."""

import msgspec
import pytest

from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.traces import Sender, record_stored, record_watched, record_written
from actors.apiserver.api.stored import Stored
from protocols.kinds.core.config import CONFIGMAPS
from protocols.kinds.pods.pods import PODS
from protocols.messages.trace import Span, SpanBatch, SpanQuery
from protocols.trace import RECORDER

UID = "0b9d8e5e-3f6f-4c7e-9a66-9c7b4a1c2d3e"
RAW = msgspec.json.encode({"kind": "Pod", "metadata": {"name": "p", "ownerReferences": [{"uid": "other"}], "uid": UID}})

ME = Sender.of("me", "kubectl/v1.37.0 (linux/amd64) kubernetes/abc")
DEEP = b'{"spec": ' + b"[" * 100_000 + b"]" * 100_000 + b', "metadata": {"uid": "x"}}'


@pytest.fixture
def after() -> int:
    return RECORDER.recorded


def spans(after: int) -> list[Span]:
    raw = msgspec.msgpack.encode(RECORDER.answer(SpanQuery(epoch=1, after=after), 1))
    return list(msgspec.msgpack.decode(raw, type=SpanBatch).spans)


def test_writes_of_pods_are_named_by_verb_and_subresource(after: int) -> None:
    stored = Stored("default/p", 7, RAW)
    record_written(Target(PODS, "create", "default"), stored, 1, ME)
    record_written(Target(PODS, "patch", "default", "p", "status"), stored, 1, ME)
    found = spans(after)
    assert [(span.pod, span.name) for span in found] == [(UID, "create"), (UID, "patch status")]
    assert found[0].attributes == {"pod": "default/p", "user": "me", "agent": "kubectl/v1.37.0"}


def test_other_objects_and_dry_runs_are_not_recorded(after: int) -> None:
    record_written(
        Target(CONFIGMAPS, "create", "default"),
        Stored("default/p", 7, RAW),
        1,
        ME,
    )
    record_written(Target(PODS, "create", "default"), Stored("default/p", 0, RAW), 1, ME)
    record_stored(CONFIGMAPS, Stored("default/p", 7, RAW), 1, 7)
    assert spans(after) == []


@pytest.mark.parametrize(
    "raw",
    [
        b"k8s\0\x0a",
        b"{}",
        b'{"metadata": {"uid": 7}}',
        b'{"metadata": null}',
        b"\xff",
        b'{"metadata": {"uid": "\xff"}}',
        DEEP,
    ],
)
def test_unreadable_objects_are_not_recorded(after: int, raw: bytes) -> None:
    record_stored(PODS, Stored("default/p", 7, raw), 1, 7)
    record_watched(Stored("default/p", 7, raw), 3)
    assert spans(after) == []
