"""A replaced history is recognised, and a history that only went on never is."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.watchcache.cache.history_check import RETAINED_REVISIONS, RecentRevisions
from protocols.etcd.types import KeyValue, WatchEvent

Write = tuple[int, bool, int]
"""Key, whether it is a deletion, value."""
WRITES = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 5)), max_size=60)


def history(writes: list[Write], first: int = 1) -> list[WatchEvent]:
    return [
        WatchEvent(deleted, KeyValue(b"k%d" % key, b"" if deleted else b"v%d" % value, 1, revision, 1), None)
        for revision, (key, deleted, value) in enumerate(writes, first)
    ]


def differs(known: list[WatchEvent], position: int, now: list[WatchEvent], reached: int, size: int = 7) -> str:
    """Watch `now` in batches from where the proof for `known` begins, then report progress to `reached`."""
    recent = RecentRevisions()
    recent.note(known)
    proof = recent.proof(position)
    replayed = [event for event in now if event.kv.mod_revision >= proof.start]
    for batch in (replayed[at : at + size] for at in range(0, len(replayed), size)):
        if found := proof.contradiction(batch[-1].kv.mod_revision, batch):
            return found
    found = proof.contradiction(reached, [])
    assert found or proof.passed
    return found


@given(WRITES, WRITES, st.integers(1, 9))
def test_lineage_of_a_history_that_went_on_is_never_contradicted(
    before: list[Write], after: list[Write], size: int
) -> None:
    whole = history(before + after)
    assert not differs(whole[: len(before)], len(before), whole, len(whole), size)


@given(WRITES, st.integers(1, 300), WRITES)
def test_lineage_of_a_restored_backup_is_contradicted_whatever_follows(
    backup: list[Write], lost: int, later: list[Write]
) -> None:
    known = history(backup + [(7, False, 100 + n) for n in range(lost)])
    grown = later + [(0, False, 9)] * lost  # the revision has passed the old position again
    now = history(backup + grown)
    assert differs(known, len(known), now, len(now))


@given(WRITES, st.integers(1, 9))
def test_lineage_finds_changes_where_it_knew_of_none(backup: list[Write], size: int) -> None:
    known = history(backup)
    position = len(known) + 3  # by progress: writes of others, outside of what is watched
    now = history([*backup, (5, False, 5)])
    found = differs(known, position, now, position + 2, size)
    assert bool(found) == bool(backup), "with nothing applied there is nothing to compare"


@pytest.mark.parametrize("deleted", [True, False])
def test_lineage_expects_no_deletion_at_the_compacted_revision(deleted: bool) -> None:
    known = history([(1, deleted, 1), (2, False, 2)])
    assert bool(differs(known, 2, known[1:], 2)) == (not deleted)


@pytest.mark.parametrize("at", [1, 2])
def test_lineage_expects_what_is_put_at_the_compacted_revision(at: int) -> None:
    """A revision of both, as when a service gives a port back, looked like another history."""
    put, deleted, later = (event.kv for event in history([(1, False, 1), (2, True, 0), (3, False, 3)], at))
    both = [WatchEvent(False, put, None), WatchEvent(True, msgspec.structs.replace(deleted, mod_revision=at), None)]
    known = [*history([(0, False, 0)] * (at - 1)), *both, WatchEvent(False, later, None)]
    now = [event for event in known if event is not both[1]]
    assert bool(differs(known, at + 2, now, at + 2)) == (at > 1), "only the oldest revision may be the compacted one"
    assert differs(known, at + 2, [event for event in known if event is not both[0]], at + 2)


def test_lineage_forgets_what_is_compacted_and_stays_bounded() -> None:
    recent = RecentRevisions()
    recent.note(history([(1, False, n) for n in range(RETAINED_REVISIONS * 3)]))
    assert len(recent) == RETAINED_REVISIONS
    recent.forget_up_to(RETAINED_REVISIONS * 3 - 2)
    assert recent.proof(RETAINED_REVISIONS * 3).start == RETAINED_REVISIONS * 3 - 1
    recent.forget_up_to(RETAINED_REVISIONS * 3)
    assert recent.proof(RETAINED_REVISIONS * 3).start == RETAINED_REVISIONS * 3 + 1
