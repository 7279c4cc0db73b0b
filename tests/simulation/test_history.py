"""What explains that a watcher lists again."""

import pytest

from tests.simulation.control.history import Relist


@pytest.mark.parametrize(("position", "explained"), [(283, True), (299, True), (300, False), (301, False)])
def test_relist_is_explained_by_a_compaction_behind_which_the_watcher_was(position: int, explained: bool) -> None:
    assert Relist(at=1.0, who="idle", position=position, compacted=300).explained is explained
