"""The format of recordings: what was written is read at every time, cut or limited; a hostile file is rejected."""

import os
import secrets
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.recording import frames
from protocols.recording.delta import apply, delta_of
from protocols.recording.frames import Header, RecordingInvalid
from protocols.recording.reader import Recording, step
from protocols.recording.writer import RecordingWriter, open_recording

HEAD = Header("1.2.3", 1_000, "node-1", {"PodsAPI": False})
LIMIT = 4 << 20
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def written(path: Path, seconds: int = 10) -> RecordingWriter:
    writer = RecordingWriter(path, HEAD, LIMIT)
    for second in range(1, seconds + 1):
        at = 1_000 * (second + 1)
        writer.set("objects/core/pods", "default/a", {"status": {"second": second}, "spec": {"x": 1}}, at)
        writer.happened("spans", "", ["uid", second], at)
        writer.flush(at, 5)
    return writer


@given(VALUES, VALUES)
def test_delta_of_two_values_makes_the_second_of_the_first(old: Any, new: Any) -> None:
    items = {"k": old}
    if old != new:
        apply(items, "k", delta_of(old, new))
        assert items == {"k": new}


@given(VALUES, VALUES)
def test_delta_that_does_not_fit_is_rejected_and_nothing_else(value: Any, delta: Any) -> None:
    with suppress(RecordingInvalid):
        apply({"k": value}, "k", delta)


def test_state_and_entries_are_read_at_each_time(tmp_path: Path) -> None:
    written(tmp_path / "r").close()
    found = Recording(tmp_path / "r")
    assert (found.header, found.begin_ms, found.end_ms) == (HEAD, 2_000, 11_000)
    assert found.state(1_999) == {}
    for second in (1, 5, 10):
        at = 1_000 * (second + 1)
        pod = {"status": {"second": second}, "spec": {"x": 1}}
        assert found.state(at + 999) == {"objects/core/pods": {"default/a": pod}}
        assert [entry.value[1] for entry, _ in found.entries(["spans"], at)] == list(range(1, second + 1))
    assert [step(found.times(), 5_500, count) for count in (-99, -1, 0, 1, 99)] == [2_000, 4_000, 5_000, 6_000, 11_000]


def test_removed_value_is_gone_and_key_frame_holds_the_rest(tmp_path: Path) -> None:
    writer = written(tmp_path / "r")
    writer.remove("objects/core/pods", "default/a", 90_000)
    writer.set("status", "store", "ready", 90_000)
    writer.flush(90_000, 0)  # a key frame is due
    writer.close()
    found = Recording(tmp_path / "r")
    assert found.state(90_000)["status"] == {"store": "ready"}
    assert not found.state(90_000).get("objects/core/pods")
    assert found.state(80_000)["objects/core/pods"]


def test_recording_cut_anywhere_opens_up_to_the_last_whole_frame(tmp_path: Path) -> None:
    written(tmp_path / "r").close()
    data = (tmp_path / "r").read_bytes()
    ends = [frame.end for frame in frames.frames(memoryview(data))]
    for size in range(len(data)):
        (tmp_path / "cut").write_bytes(data[:size])
        if size < ends[0]:
            with pytest.raises(RecordingInvalid, match=r"no recording|no whole frame"):
                Recording(tmp_path / "cut")
        else:
            assert Recording(tmp_path / "cut").size == max(end for end in ends if end <= size)


def test_recorder_that_starts_again_appends_after_the_last_whole_frame(tmp_path: Path) -> None:
    writer = written(tmp_path / "r")
    writer.close()
    with (tmp_path / "r").open("ab") as file:
        file.write(b"\2\0\0")
    again = RecordingWriter(tmp_path / "r", HEAD, LIMIT)
    again.set("status", "store", "ready", 20_000)
    again.flush(20_000, 0)
    again.close()
    found = Recording(tmp_path / "r")
    assert found.state(19_000)["objects/core/pods"]
    assert found.state(20_000) == {"status": {"store": "ready"}}


def test_file_beyond_its_limit_loses_its_oldest_segments(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "r", HEAD, 1 << 20)
    noise = iter(range(1 << 40))
    for second in range(1, 400):
        text = b"".join(zlib.crc32(b"%d" % next(noise)).to_bytes(4, "big") for _ in range(2_000)).hex()
        writer.set("state", "latest", second, second * 1_000)
        writer.happened("log", "", text, second * 1_000)
        writer.flush(second * 1_000, 0)
        assert (tmp_path / "r").stat().st_size == writer.size <= 1 << 20
    writer.close()
    found = Recording(tmp_path / "r")
    assert found.header == HEAD
    assert found.begin_ms > 200_000
    assert found.state(399_000) == {"state": {"latest": 399}}
    assert found.state(found.begin_ms)["state"]["latest"] * 1_000 == found.begin_ms
    assert list(tmp_path.iterdir()) == [tmp_path / "r"]


def test_change_that_is_written_before_a_key_frame_of_the_same_time_is_not_applied_to_it(tmp_path: Path) -> None:
    writer = written(tmp_path / "r", 3)
    writer.set("objects/core/pods", "default/a", {"status": {"second": 9}, "spec": {"x": 1}}, 90_000)
    writer.flush(90_000, 0)
    writer.close()
    assert Recording(tmp_path / "r").state(90_000) == writer.state


def test_value_that_is_too_large_is_left_out_and_counted(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "r", HEAD, LIMIT)
    writer.happened("log", "", "x" * (9 << 20), 1)
    writer.happened("log", "", "y", 1)
    writer.flush(1, 0)
    writer.close()
    assert writer.left_out == 1
    assert [entry.value for entry, _ in Recording(tmp_path / "r").entries(["log"], 9)] == ["y"]


def test_full_disk_loses_what_waited_and_the_next_write_begins_anew(tmp_path: Path) -> None:
    writer = written(tmp_path / "r", 3)
    real, size = writer._file, writer.size

    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def write(self, data: bytes) -> int:
            return real.write(data[:7])

    writer._file = Full()  # type: ignore[assignment]
    writer.set("state", "k", 1, 9_000)
    with pytest.raises(OSError, match="No space"):
        writer.flush(9_000, 0)
    assert (tmp_path / "r").stat().st_size == size
    writer._file = real
    writer.set("state", "other", 2, 10_000)
    writer.flush(10_000, 0)
    writer.close()
    assert Recording(tmp_path / "r").state(10_000)["state"] == {"k": 1, "other": 2}


def test_change_of_what_a_full_disk_lost_is_in_the_key_frame_only(tmp_path: Path) -> None:
    writer = written(tmp_path / "r", 3)
    real = writer._file
    writer.set("state", "k", {"a": 1, "b": 1}, 9_000)
    with Path("/dev/full").open("r+b", buffering=0) as full:
        writer._file = full
        with pytest.raises(OSError, match=r"No space|Invalid"):
            writer.flush(9_000, 0)
    writer._file = real
    writer.set("state", "k", {"a": 2, "b": 1}, 10_000)
    writer.flush(10_500, 0)
    writer.close()
    found = Recording(tmp_path / "r")
    assert "state" not in found.state(10_200)
    assert found.state(10_500)["state"] == {"k": {"a": 2, "b": 1}}


def file_with(*bodies: tuple[int, bytes]) -> bytes:
    return frames.start() + b"".join(frames.pack(kind, 1, body) for kind, body in bodies)


HEADER_BODY = (frames.HEADER, msgspec.msgpack.encode(HEAD))
DEEP = b"\x91" * 100_000
BOMB = struct.pack(">BIIIQ", 2, 1 << 10, 1 << 30, 0, 0) + bytes(1 << 10)
CONTENT = zlib.compress(bytes(1 << 20))
LONGER = struct.pack(">BIIIQ", 2, len(CONTENT), 10, zlib.crc32(CONTENT), 0) + CONTENT


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no recording; give"),
        (b"PK\3\4 a zip", "no recording; give"),
        (frames.start(), "no whole frame"),
        (frames.SIGNATURE + b"\0\x63", "version 99"),
        (file_with((frames.CHANGES, b"\x91\x90")), "no whole frame"),
        (file_with((frames.HEADER, b"\x01")), "cannot be read"),
        (file_with(HEADER_BODY) + BOMB, "damaged at byte"),
        (file_with(HEADER_BODY) + LONGER, "not of the length"),
        (file_with(HEADER_BODY, (frames.CHANGES, DEEP)), "cannot be read"),
        (file_with(HEADER_BODY, (frames.CHANGES, msgspec.msgpack.encode([[[1, "s", "k", [2, {}]]]]))), "does not fit"),
        (file_with(HEADER_BODY).replace(b"\0\1", b"\0\1", 1)[:-1] + b"x", "damaged at byte"),
    ],
)
def test_hostile_file_is_rejected_in_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "r").write_bytes(data)
    with pytest.raises(RecordingInvalid, match=words) as error:
        Recording(tmp_path / "r").state(9)
    assert "\n" not in str(error.value)


def test_what_begins_as_no_recording_is_not_read_to_its_end() -> None:
    """As /dev/zero, which has none."""
    reads, writes = os.pipe()
    os.write(writes, bytes(100))
    with open(reads, "rb"), open(writes, "wb"), pytest.raises(RecordingInvalid, match="this is no recording"):
        Recording(Path(f"/proc/self/fd/{reads}"))


@given(st.data())
def test_damaged_byte_is_rejected_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    if not (path.parent / "whole").exists():
        written(path.parent / "whole", 3).close()
    content = bytearray((path.parent / "whole").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with suppress(RecordingInvalid):
        found = Recording(path)
        found.state(found.end_ms)
        list(found.entries(["spans"], found.end_ms))


def test_file_that_is_something_else_is_not_recorded_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not lose me")
    with pytest.raises(RecordingInvalid, match="no recording; give another name"):
        open_recording(tmp_path / "thesis.txt")
    with pytest.raises(RecordingInvalid, match="no file"):
        open_recording(Path("/dev/null"))
    assert (tmp_path / "thesis.txt").read_text() == "do not lose me"


def test_entries_alone_keep_to_the_limit(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "r", HEAD, 1 << 20)
    for second in range(5):
        writer.happened("lines", "store", secrets.token_hex(1 << 19), second)
        writer.flush(second, 0)
    writer.close()
    assert (tmp_path / "r").stat().st_size <= 1 << 20


def test_disk_that_fills_while_a_file_is_cut_damages_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordingWriter(tmp_path / "r", HEAD, 1 << 20)
    monkeypatch.setattr("shutil.copyfileobj", lambda source, target: target.write(source.read()[:-9]))
    with suppress(OSError):
        for second in range(1, 9):
            writer.set("state", "k", secrets.token_hex(1 << 18), second)
            writer.flush(second, 0)
    writer.close()
    assert (tmp_path / "r").stat().st_size == writer.size == Recording(tmp_path / "r").size
