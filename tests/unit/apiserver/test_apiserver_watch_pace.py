"""At any rate of writes a watch's last bookmark is within a quarter of what a restarted watch cache reads back."""

from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.watch.bookmarks import SHARE, TURN, BookmarkPacer, BookmarkSweep, ChangeVolume
from actors.apiserver.watch.timers import Flushable
from actors.apiserver.watch.watcher import Watcher
from actors.store.model.options import StoreOptions
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.window import WindowOptions
from protocols.etcd.options import EtcdOptions
from protocols.messages.objects import HISTORY_BYTES, HISTORY_REVISIONS, MIB, WINDOW_BYTES
from tests.support.watch_wire import ByHand

STEPS = st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 3 * MIB), st.integers(0, 3 * MIB)), max_size=200)
"""Revisions that pass, and bytes changed in this resource and in others."""


@given(STEPS)
def test_bookmarks_stay_within_a_quarter_of_the_history(steps: list[tuple[int, int, int]]) -> None:
    volume = ChangeVolume()
    pace, other = BookmarkPacer(volume), BookmarkPacer(volume)
    mark = told = own = everything = 0
    for revisions, mine, others in steps:
        mark, own, everything = mark + revisions, own + mine, everything + mine + others
        pace.changed(mine)
        other.changed(others)
        if pace.due(mark):
            pace.sent(mark)
            told, own, everything = mark, 0, 0
        assert mark - told < HISTORY_REVISIONS // SHARE
        assert own < WINDOW_BYTES // SHARE
        assert everything < HISTORY_BYTES // SHARE


def test_history_is_kept_where_it_is_read_back() -> None:
    read = WatchcacheOptions(etcd=EtcdOptions(endpoints=("unix:/none",)))
    assert (read.resume_revisions, read.resume_bytes) == (HISTORY_REVISIONS, HISTORY_BYTES)
    assert WindowOptions().max_bytes == WINDOW_BYTES
    assert StoreOptions.__struct_defaults__ is not None
    assert HISTORY_REVISIONS in StoreOptions.__struct_defaults__, "history_least"


class Marks:
    def __init__(self) -> None:
        self.got: list[object] = []

    def bookmark(self, watcher: Watcher) -> bool:
        self.got.append(watcher)
        return True


def test_sweep_reaches_each_watch_once_a_few_hundred_a_turn() -> None:
    flusher, marks = ByHand(), Marks()
    sweep: Flushable = BookmarkSweep(marks, flusher)
    assert isinstance(sweep, BookmarkSweep)
    watchers = [object() for _ in range(2 * TURN + 1)]
    sweep.begin(watchers)  # type: ignore[arg-type]  # anything will do
    flusher.turn()
    assert len(marks.got) == TURN
    sweep.begin(watchers[:1])  # type: ignore[arg-type]
    flusher.settle()
    assert len(marks.got) == 2 * TURN + 2
    assert set(map(id, marks.got)) == set(map(id, watchers))
