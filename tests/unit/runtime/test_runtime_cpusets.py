"""CPUs and NUMA nodes of a container: what of a wish this machine can do, by cgroup or by affinity."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.cgroups import cpusets
from actors.runtime.cgroups.hierarchy import Cgroups, Hierarchy
from actors.runtime.cgroups.limits import CPUSET, placement
from protocols.wire import cri_pb2 as pb

OWN = sorted(os.sched_getaffinity(0))


def base(path: Path, cpus: str = "0-3", mems: str = "0-1") -> Path:
    path.mkdir()
    (path / "cpuset.cpus").write_text(cpus)
    (path / "cpuset.mems").write_text(mems)
    return path


def fitted(base: Path | None, **wanted: Any) -> dict[str, str]:
    found = cpusets.fit(placement(pb.LinuxContainerResources(**wanted)), base)
    return {setting.file: setting.value for setting in found}


def test_what_exists_of_a_wish_is_taken_and_the_other_file_is_filled(tmp_path: Path) -> None:
    group = base(tmp_path / "base")
    assert fitted(group, cpuset_cpus="2-9") == {"cpuset.cpus": "2-3", "cpuset.mems": "0-1"}
    assert fitted(group, cpuset_cpus="1", cpuset_mems="1") == {"cpuset.cpus": "1", "cpuset.mems": "1"}
    assert fitted(group, cpuset_mems="0") == {"cpuset.cpus": "0-3", "cpuset.mems": "0"}


def test_nothing_is_set_where_nothing_of_it_exists(tmp_path: Path) -> None:
    group = base(tmp_path / "base")
    assert fitted(group) == {}
    assert fitted(group, cpuset_cpus="8-9") == {}
    assert fitted(group, cpuset_cpus="garbage") == {}
    assert fitted(None, cpuset_cpus="1") == {}


def test_a_new_group_of_version_1_gets_its_parents(tmp_path: Path) -> None:
    parent = base(tmp_path / "parent")
    fresh = base(tmp_path / "fresh", "", "")
    assert cpusets.seed(fresh, parent)
    assert (fresh / "cpuset.mems").read_text() == "0-1"
    assert not cpusets.seed(tmp_path / "absent", parent)


@pytest.mark.parametrize("bases", [{}, {"memory": Path("/nowhere")}])
def test_without_a_cpuset_group_affinity_does_it(bases: dict[str, Path]) -> None:
    cgroups = Cgroups(Path("/r"), Hierarchy(True, bases))
    wish = pb.LinuxContainerResources(cpuset_cpus=f"{OWN[-1]},60000")
    assert cgroups.make("c", wish).cpus == (OWN[-1],)
    assert cgroups.make("c", pb.LinuxContainerResources(cpuset_cpus="60000")).cpus == ()


def test_with_one_it_does_not(tmp_path: Path) -> None:
    cgroups = Cgroups(Path("/r"), Hierarchy(True, {CPUSET: base(tmp_path / "base", str(OWN[0]))}))
    member = cgroups.make("c", pb.LinuxContainerResources(cpuset_cpus=str(OWN[0])))
    assert member.cpus == ()


def test_running_processes_are_moved() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        cpusets.move([sleeper.pid, 2**22 - 1], OWN[:1])
        assert os.sched_getaffinity(sleeper.pid) == {OWN[0]}
    finally:
        sleeper.kill()
        sleeper.wait()
