"""The persisted state: after a restart positions continue, without a lost or repeated event."""

import errno
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.adopt import published_state
from actors.adopt.allocation_diff import diff_steps
from actors.adopt.errors import StateNotPersisted
from actors.adopt.published_state import PublishedState, StateFile, StoredState, decode
from protocols.bus import Bus, BusOptions
from protocols.messages.allocation_history import AllocationHistory, AllocationSource
from protocols.messages.devices import PodAllocation
from protocols.process.files import seal

UIDS = st.sets(st.sampled_from(["u0", "u1", "u2", "u3"]))


def pods(uids: set[str], version: int = 0) -> dict[str, PodAllocation]:
    return {uid: PodAllocation(uid, "default", f"{uid}-{version}") for uid in uids}


def restart(file: StateFile, now: int) -> PublishedState:
    state = PublishedState(Bus(BusOptions(name="", run_dir=Path("/"))), now)
    found, complaint = file.load()
    assert not complaint
    if found:
        state.restore(found)
    return state


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(UIDS, st.integers(0, 1), st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_publish_pods_follower_across_restarts_has_same_state(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[set[str], int, bool, bool]]
) -> None:
    """Each look is written; then, maybe, published; then, maybe, adopt is killed. A follower goes on where it was."""
    file = StateFile(tmp_path_factory.mktemp("r"))
    state, now = restart(file, 10**18), 10**18
    seen: dict[str, PodAllocation] = {}
    mark = state.history().floor
    assert file.save(state.stored_after([])) == ""
    for uids, version, published, killed in history:
        events = state.events(diff_steps(state.pods, pods(uids, version)))
        file.save(state.stored_after(events))
        if published or not killed:
            state.publish_pods(events)
        if killed:
            now += 10**9
            state = restart(file, now)
        kept = state.history()
        source = AllocationSource(state.pods, AllocationHistory(file_mark(file), kept.events))
        missed = source.since(mark)
        assert missed is not None, "its position is still ours"
        for event in missed:
            assert event.mark == mark + 1
            mark = event.mark
            if isinstance(event.value, PodAllocation):
                seen[event.key] = event.value
            else:
                del seen[event.key]
        assert seen == state.pods == pods(uids, version)


def file_mark(file: StateFile) -> int:
    found, _ = file.load()
    assert found
    return found.mark


def test_load_damaged_file_warns_and_retains_it(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    file.save(StoredState(7, (PodAllocation("u", "d", "n"),)))
    raw = file.path.read_bytes()
    for damaged in (raw[:-3], raw.replace(b'"n"', b'"m"'), b"", b"[]", raw.replace(b'"mark":7', b'"mark":8')):
        file.path.write_bytes(damaged)
        found, complaint = file.load()
        assert found is None
        assert "positions begin anew" in complaint
        assert file.path.with_name("adopted.json.corrupt").read_bytes() == damaged


def test_load_later_version_is_rejected(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    file.save(msgspec.structs.replace(StoredState(7), version=2))
    assert "version 2, this program reads 1" in file.load()[1]


def test_save_full_disk_removes_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = StateFile(tmp_path)
    assert file.save(StoredState(7)) == ""

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(published_state, "write_atomic", full)
    assert "No space left on device" in file.save(StoredState(8))
    assert file.load() == (None, "")


def test_save_unwritable_and_unremovable_raises(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    file.path.mkdir()
    with pytest.raises(StateNotPersisted, match="nothing is published until"):
        file.save(StoredState(8))
    assert "cannot read" in file.load()[1]


def test_decode_reads_what_was_stored() -> None:
    state = PublishedState(Bus(BusOptions(name="", run_dir=Path("/"))), 10**18)
    events = state.events(diff_steps({}, pods({"u1", "u2"})))
    kept = state.stored_after(events)
    assert decode(seal(msgspec.json.encode(kept))) == kept
    assert [event.mark for event in events] == [kept.mark - 1, kept.mark]
