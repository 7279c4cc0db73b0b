"""What adopt told is on disk: another life goes on at the very position, with no event told twice or not at all."""

import errno
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.adopt import record as records
from actors.adopt.diff import steps
from actors.adopt.errors import NotWritten
from actors.adopt.ledger import Ledger
from actors.adopt.record import Record, RecordFile, decode
from protocols.bus import Bus, BusOptions
from protocols.ledger import AllocationSource, History
from protocols.messages.devices import PodAllocation

UIDS = st.sets(st.sampled_from(["u0", "u1", "u2", "u3"]))


def pods(uids: set[str], version: int = 0) -> dict[str, PodAllocation]:
    return {uid: PodAllocation(uid, "default", f"{uid}-{version}") for uid in uids}


def life(file: RecordFile, now: int) -> Ledger:
    ledger = Ledger(Bus(BusOptions(name="", run_dir=Path("/"))), now)
    found, complaint = file.load()
    assert not complaint
    if found:
        ledger.restore(found)
    return ledger


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(UIDS, st.integers(0, 1), st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_whoever_follows_across_lives_has_the_same_picture(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[set[str], int, bool, bool]]
) -> None:
    """Each look is written; then, maybe, told; then, maybe, adopt is killed. A follower goes on where it was."""
    file = RecordFile(tmp_path_factory.mktemp("r"))
    ledger, now = life(file, 10**18), 10**18
    seen: dict[str, PodAllocation] = {}
    mark = ledger.history().floor
    assert file.save(ledger.record([])) == ""
    for uids, version, told, killed in history:
        events = ledger.events(steps(ledger.pods, pods(uids, version)))
        file.save(ledger.record(events))
        if told or not killed:
            ledger.tell(events)
        if killed:
            now += 10**9
            ledger = life(file, now)
        kept = ledger.history()
        source = AllocationSource(ledger.pods, History(file_mark(file), kept.events))
        missed = source.since(mark)
        assert missed is not None, "its position is still ours"
        for event in missed:
            assert event.mark == mark + 1
            mark = event.mark
            if isinstance(event.value, PodAllocation):
                seen[event.key] = event.value
            else:
                del seen[event.key]
        assert seen == ledger.pods == pods(uids, version)


def file_mark(file: RecordFile) -> int:
    found, _ = file.load()
    assert found
    return found.mark


def test_damage_is_said_and_the_file_kept_aside(tmp_path: Path) -> None:
    file = RecordFile(tmp_path)
    file.save(Record(7, (PodAllocation("u", "d", "n"),)))
    raw = file.path.read_bytes()
    for damaged in (raw[:-3], raw.replace(b'"n"', b'"m"'), b"", b"[]", raw.replace(b'"mark":7', b'"mark":8')):
        file.path.write_bytes(damaged)
        found, complaint = file.load()
        assert found is None
        assert "positions begin anew" in complaint
        assert file.path.with_name("adopted.json.corrupt").read_bytes() == damaged


def test_a_file_of_a_later_version_is_not_guessed_at(tmp_path: Path) -> None:
    file = RecordFile(tmp_path)
    file.save(msgspec.structs.replace(Record(7), version=2))
    assert "version 2, this program reads 1" in file.load()[1]


def test_a_disk_that_refuses_leaves_no_record_that_would_be_met_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RecordFile(tmp_path)
    assert file.save(Record(7)) == ""

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(records, "write_atomic", full)
    assert "No space left on device" in file.save(Record(8))
    assert file.load() == (None, "")


def test_a_disk_that_neither_takes_nor_gives_keeps_everything_untold(tmp_path: Path) -> None:
    file = RecordFile(tmp_path)
    file.path.mkdir()
    with pytest.raises(NotWritten, match="nothing is told until"):
        file.save(Record(8))
    assert "cannot read" in file.load()[1]


def test_what_is_written_is_read() -> None:
    ledger = Ledger(Bus(BusOptions(name="", run_dir=Path("/"))), 10**18)
    events = ledger.events(steps({}, pods({"u1", "u2"})))
    kept = ledger.record(events)
    assert decode(records.seal(msgspec.json.encode(kept))) == kept
    assert [event.mark for event in events] == [kept.mark - 1, kept.mark]
