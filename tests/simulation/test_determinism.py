"""One seed gives one run: the same trace in two operating system processes."""

import subprocess
import sys
import tempfile

import pytest

from tests.simulation.alone import ROOT, outcome
from tests.simulation.world.ordered import _order


@pytest.mark.parametrize(
    ("profile", "seed"),
    [("control", 1), ("plane", 5)],
    ids=["embedded store", "two nodes on a model of an etcd"],
)
def test_one_seed_in_two_processes_gives_one_trace(profile: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        first = outcome(profile, seed, 4)
        second = outcome(profile, seed, 4, TMPDIR=directory, UNRELATED="x" * 10_000)
    assert first.broken == second.broken == []
    assert first.turns > 1_000
    assert first.messages > 1_000
    assert (first.trace, first.counts, first.faults) == (second.trace, second.counts, second.faults)


CLOCKS = """
import os, tempfile, time
from pathlib import Path
from tests.simulation.world.install import install
from tests.simulation.world.world import World

def read():
    no_clock = {"sleep", "strptime", "mktime", "tzset", "get_clock_info", "pthread_getcpuclockid", "clock_getres",
                "clock_settime", "clock_settime_ns"}
    for name, read in vars(time).items():
        if not callable(read) or isinstance(read, type) or name.startswith("_") or name in no_clock:
            continue
        if name.startswith("clock_gettime"):
            for clock in (number for key, number in vars(time).items() if key.startswith("CLOCK_")):
                yield name, read(clock)
        else:
            yield name, read("%c") if name == "strftime" else read()

world = World(1, Path(tempfile.mkdtemp(dir="/dev/shm")))
real = time.sleep
install(world)
first = [*read()]
real(1.1)
assert [*read()] == first, [(a, b) for a, b in zip(first, read()) if a != b]
world.now += 2.0
assert all(now != then for now, then in zip(read(), first)), first
print(len(first))
"""


def test_no_clock_shows_how_slow_the_machine_is() -> None:
    """A node's lease was late by CLOCK_BOOTTIME where a run took half a minute."""
    command = [sys.executable, "-c", CLOCKS]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert int(ran.stdout) > 20


class _Slotted:
    __slots__ = ("name",)

    def __init__(self, name: int) -> None:
        self.name = name


def test_sets_of_objects_with_slots_have_the_order_of_first_use() -> None:
    _order(_Slotted)
    made = [_Slotted(number) for number in range(100)]
    assert [hash(each) - hash(made[0]) for each in made] == list(range(100))
