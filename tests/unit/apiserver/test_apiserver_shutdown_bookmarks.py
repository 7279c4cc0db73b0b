"""Last bookmarks are counted over restarts: the process that sends them is not scraped any more."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from actors.apiserver.http.telemetry.shutdown_bookmarks import ShutdownBookmarks


def counter() -> Counter:
    return Counter("bookmarks", "", ("group", "resource", "result"), registry=CollectorRegistry())


def values(count: Counter) -> dict[tuple[str, ...], float]:
    samples = [sample for metric in count.collect() for sample in metric.samples if sample.name.endswith("_total")]
    return {tuple(sample.labels.values()): sample.value for sample in samples}


def test_shutdown_bookmarks_add_up_over_processes(tmp_path: Path) -> None:
    for total in (2.0, 4.0):
        count = counter()
        bookmarks = ShutdownBookmarks(tmp_path / "apiserver-0.bookmarks", count)
        bookmarks.restore()
        count.labels("", "pods", "sent").inc(2)
        count.labels("apps", "deployments", "waiting").inc(0)
        bookmarks.store()
        assert values(count)["", "pods", "sent"] == total


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"garbage",
        b"[[1]]",
        b'[{"labels":["a"],"count":1}]',
        b'[{"labels":["","p","sent"],"count":-1}]',
        b'[{"labels":["","\xff","sent"],"count":1}]',
    ],
)
def test_shutdown_bookmarks_damaged_file_begins_anew(tmp_path: Path, stored: bytes) -> None:
    path, count = tmp_path / "a", counter()
    path.write_bytes(stored)
    ShutdownBookmarks(path, count).restore()
    assert values(count) == {}


def test_shutdown_bookmarks_unwritable_directory_costs_the_count_only(tmp_path: Path) -> None:
    ShutdownBookmarks(tmp_path / "none" / "a", counter()).store()
