"""Many open watches while everything behind them dies: each resumes, misses nothing, repeats nothing."""

from collections.abc import Iterator

import pytest

from tests.support.herd import Herd
from tests.support.mistreat import hit, replaced
from tests.support.plane import Plane, until
from tests.support.witnesses import CONFIGMAPS, Witnesses
from tests.support.writer import Writer

WATCHES = 120


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane; in the end its replicas agree."""
    with Plane() as plane:
        yield plane
        plane.settled()


def test_many_watches_outlive_all_that_serves_them(plane: Plane) -> None:
    with Herd(plane, CONFIGMAPS, WATCHES) as herd, Witnesses(plane, per_second=10) as witnesses:
        for victims in (("apiserver-0",), ("watchcache",), ("store",), ("store", "watchcache", "apiserver-0")):
            opened = herd.opened
            replaced(plane, hit(plane, *victims))
            if "apiserver-0" in victims:
                until("all open again", lambda opened=opened: herd.opened >= opened + WATCHES)  # type: ignore[misc] # bound at once
            goes_on(witnesses.writer)
        opened = herd.opened
        plane.nodeplane("scale", "watcher", "3")
        goes_on(witnesses.writer)
        assert herd.opened == opened, "more API processes disturbed open watches"
        witnesses.writer.close()
        herd.judge("/registry/configmaps/default/")
        plane.nodeplane("scale", "watcher", "1")


def goes_on(writer: Writer) -> None:
    count = len(writer.acknowledged)
    until("writes go on", lambda: len(writer.acknowledged) > count + 2)
