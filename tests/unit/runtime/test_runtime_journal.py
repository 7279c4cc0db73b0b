"""The journal of simulated containers: what was written is read back, wherever a kill or a full disk cut it off."""

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.model.containers import Container, ContainerRecord, Life, Sandbox, SandboxRecord
from actors.runtime.model.cri_messages import container_statuses, sandbox_status
from actors.runtime.state import journal
from actors.runtime.state.container_events import encode_event
from actors.runtime.state.journal import Journal
from protocols.wire import cri_pb2 as pb

CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["create", "move", "remove"])), max_size=30)


def record(id: str, created: int = 1, finished: int = 0, config: bytes = b"c") -> ContainerRecord:
    return ContainerRecord(id, "s", "boot", config, Life(created, created if finished else 0, finished))


def play(journal: Journal, changes: list[tuple[str, str]]) -> list[dict[str, ContainerRecord]]:
    """The records after each change, the empty start first."""
    held: dict[str, ContainerRecord] = {}
    history = [dict(held)]
    for number, (id, change) in enumerate(changes, start=1):
        if change == "create":
            held[id] = record(id, number)
            journal.write(held[id])
        elif change == "move" and id in held:
            held[id] = ContainerRecord(id, "s", "boot", held[id].config, Life(1, 1, number))
            journal.write(held[id])
        elif change == "remove" and id in held:
            del held[id]
            journal.remove(id)
        history.append(dict(held))
    return history


@given(CHANGES, st.floats(0, 1))
def test_a_journal_cut_anywhere_restores_an_earlier_state(changes: list[tuple[str, str]], part: float) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "j"
        history = play(Journal(path), changes)
        whole = path.read_bytes() if path.exists() else b""
        assert {item.id: item for item in Journal(path).load()} == history[-1]
        path.write_bytes(whole[: int(len(whole) * part)])
        assert {item.id: item for item in Journal(path).load()} in history


def test_what_is_outdated_is_dropped_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SLACK", 1000)
    kept = Journal(tmp_path / "j")
    kept.write(record("stays"))
    for number in range(300):
        kept.write(record("moves", 1, number))
        kept.remove("moves")
    assert (tmp_path / "j").stat().st_size < 5000
    assert [item.id for item in Journal(tmp_path / "j").load()] == ["stays"]


@pytest.mark.parametrize("truncate", [os.ftruncate, Mock(side_effect=OSError(errno.EIO, "no"))])
def test_a_write_that_fails_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncate: Any) -> None:
    monkeypatch.setattr(os, "ftruncate", truncate)
    kept, write = Journal(tmp_path / "j"), os.write
    kept.write(record("a"))
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    with pytest.raises(OSError, match="no space left") as caught:
        kept.write(record("b"))
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.setattr(os, "write", write)
    kept.write(record("c"))
    assert [item.id for item in Journal(tmp_path / "j").load()] == ["a", "c"]


def test_an_unusable_line_costs_that_line_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = Journal(tmp_path / "j")
    kept.write(record("a"))
    with (tmp_path / "j").open("ab") as file:
        file.write(b'garbage\n{"id":"\xff"}\n{"id":"nobody","life":{"created_at":1}}\n')
    assert [item.id for item in Journal(tmp_path / "j").load()] == ["a"]
    assert caplog.text.count("skipped") == 3


@given(st.integers(0, 300), st.integers(0, 3))
def test_an_events_bytes_are_the_message(size: int, containers: int) -> None:
    config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="p", uid="u", namespace="n"))
    sandbox = Sandbox(SandboxRecord("s", 1, "boot", b""), config)
    for number in reversed(range(containers)):
        made = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c" * size), image=pb.ImageSpec(image="i"))
        sandbox.containers[str(number)] = Container(record(str(number), number + 1), made, sandbox)
    for moved in ("", "0"):
        if moved in sandbox.containers:
            sandbox.containers[moved].record = record(moved, 1, 9)
        told = pb.ContainerEventResponse.FromString(encode_event(pb.CONTAINER_STOPPED_EVENT, "x", 5, sandbox).joined())
        assert told == pb.ContainerEventResponse(
            container_id="x",
            container_event_type=pb.CONTAINER_STOPPED_EVENT,
            created_at=5,
            pod_sandbox_status=sandbox_status(sandbox),
            containers_statuses=container_statuses(sandbox),
        )


def test_change_is_written_although_there_is_no_room_to_shorten_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SLACK", 1000)
    kept = Journal(tmp_path / "j")
    kept.write(record("a"))
    monkeypatch.setattr(os, "rename", Mock(side_effect=OSError(errno.ENOSPC, "no space left on device")))
    for number in range(50):
        kept.write(record("a", 1, number + 2, config=str(number).encode()))
    monkeypatch.undo()
    assert [item.life.finished_at for item in Journal(tmp_path / "j").load()] == [51]
