"""Which faults the simulation draws, and with which limits."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.control.profile import ControlProfile
from tests.simulation.disk.machine import DISK_FAULTS
from tests.simulation.etcd.faults import ETCD_FAULTS
from tests.simulation.node.profile import NodeProfile
from tests.simulation.world.faults import draw
from tests.simulation.world.world import World

SEEDS = 60


@pytest.mark.parametrize("kinds", [ControlProfile.kinds + DISK_FAULTS + ETCD_FAULTS, NodeProfile.kinds])
def test_each_kind_is_drawn_with_real_limits_and_with_others(kinds: tuple[str, ...], tmp_path: Path) -> None:
    profile: Any = SimpleNamespace(kinds=kinds, targets=("store",), means=(0.3,))
    drawn: dict[bool, set[str]] = {True: set(), False: set()}
    for seed in range(SEEDS):
        world = World(seed, tmp_path)
        drawn[world.real_limits] |= {fault.kind for fault in draw(seed, 10.0, profile)}
    assert drawn[True] == drawn[False] == set(kinds)


def test_streams_are_cut_and_reset_now_and_then_with_real_limits(tmp_path: Path) -> None:
    real = next(world for seed in range(SEEDS) if (world := World(seed, tmp_path)).real_limits)
    assert 0 < real.network.cut_share < 0.1
    assert 0 < real.network.reset_share < 0.1
