"""For every test: no example of a property has a deadline of its own, a machine may be busy; speed is the bench's.

`make test` tries the same examples each time, so that what it says of a commit it says again; NODEPLANE_FUZZ=1 tries
others each time, and more of them. A test names a number of its own only where an example is expensive.
"""

import os

import pytest
from hypothesis import settings

FUZZ = bool(os.environ.get("NODEPLANE_FUZZ"))
settings.register_profile("nodeplane", deadline=None, derandomize=not FUZZ, max_examples=500 if FUZZ else 60)
settings.load_profile("nodeplane")

LONGEST = (
    "test_supervisor_tree",
    "test_story",
    "test_cri",
    "test_connection_storm",
    "test_scripts",
    "test_stall",
    "test_pleg",
    "test_runtime_lies_plane",
    "test_health_story",
    "test_dra_plane",
    "test_own_plane",
    "test_etcd_cluster",
    "test_pleg_disruption",
    "test_kep1904",
    "test_bad_day",
    "test_bad_pods",
    "test_machine",
)
"""Files that take the longest, the longest first: the rest fills the gaps, so that no process is alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))
