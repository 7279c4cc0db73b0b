"""How far the store compacts by itself: never what is young, never what a restarted watch cache reads again."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.store.model.options import StoreOptions
from actors.store.mvcc.retention import Retention
from actors.watchcache.cache.options import WatchcacheOptions
from protocols.etcd.options import EtcdOptions

NOWHERE = Path("/nowhere")
PATHS: dict[str, Any] = dict.fromkeys(("directory", "socket", "address_file", "ca", "cert", "key"), NOWHERE)
STEPS = st.lists(st.tuples(st.floats(1.0, 120.0), st.integers(0, 5000)), min_size=1, max_size=60)


def test_retention_watchcache_restart_finds_history() -> None:
    options = StoreOptions(**PATHS)
    assert WatchcacheOptions(etcd=EtcdOptions(endpoints=("unix:x",))).resume_revisions <= options.history_min_revisions
    assert options.history_min_revisions < options.history_max_revisions


@given(STEPS, st.integers(1, 3000), st.integers(3000, 9000))
def test_retention_keeps_by_age_and_number(steps: list[tuple[float, int]], least: int, most: int) -> None:
    options = StoreOptions(**PATHS, history_seconds=100.0, history_min_revisions=least, history_max_revisions=most)
    retention, now, revision = Retention(options), 0.0, 1
    seen: list[tuple[float, int]] = []
    for pause, writes in steps:
        now, revision = now + pause, revision + writes
        seen.append((now, revision))
        target = retention.target(now, revision)
        old = max((each for at, each in seen if at <= now - options.history_seconds), default=0)
        assert target <= revision - least
        assert target <= max(old, revision - most), "young history is compacted"
        assert target >= revision - most, "history grows without bound"
