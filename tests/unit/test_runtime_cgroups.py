"""Limits as files, and the search for a hierarchy, in directories that look like the kernel's."""

from pathlib import Path

import pytest

from actors.runtime.cgroups.hierarchy import NO_CGROUPS, Cgroups, Hierarchy, KernelFiles, find_hierarchy
from actors.runtime.cgroups.limits import settings, weight
from protocols.wire import cri_pb2 as pb

LIMITS = pb.LinuxContainerResources(
    cpu_period=100_000, cpu_quota=50_000, cpu_shares=512, memory_limit_in_bytes=64 << 20, unified={"pids.max": "9"}
)


def files(resources: pb.LinuxContainerResources, unified: bool) -> dict[str, str]:
    return {setting.file: setting.value for setting in settings(resources, unified)}


def test_settings_of_both_versions() -> None:
    assert files(LIMITS, unified=True) == {
        "cpu.weight": str(weight(512)),
        "cpu.max": "50000 100000",
        "memory.max": str(64 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "9",
    }
    assert files(LIMITS, unified=False) == {
        "cpu.shares": "512",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "50000",
        "memory.limit_in_bytes": str(64 << 20),
        "memory.memsw.limit_in_bytes": str(64 << 20),
        "pids.max": "9",
    }


def test_nothing_asked_for_is_nothing_set_and_a_limit_can_be_lifted() -> None:
    for unified in (True, False):
        assert files(pb.LinuxContainerResources(cpu_shares=2), unified) == {}
    lifted = pb.LinuxContainerResources(memory_limit_in_bytes=-1, cpu_quota=-1)
    assert files(lifted, unified=True) | {"memory.oom.group": ""} == {
        "memory.max": "max",
        "memory.swap.max": "max",
        "cpu.max": "max 100000",
        "memory.oom.group": "",
    }
    assert files(lifted, unified=False)["memory.limit_in_bytes"] == "-1"


def test_unified_entries_cannot_name_other_files() -> None:
    wanted = pb.LinuxContainerResources(unified={"../x": "1", "memory.high": "5", "cgroup.procs": "1", "cpu/../y": "1"})
    assert files(wanted, unified=True) == {"memory.high": "5"}
    assert files(wanted, unified=False) == {}


def test_weights_span_the_range() -> None:
    assert (weight(0), weight(2), weight(262_144), weight(10**9)) == (1, 1, 10_000, 10_000)


def machine(tmp_path: Path, mounts: str, membership: str) -> KernelFiles:
    (tmp_path / "mounts").write_text(mounts.replace("TOP", str(tmp_path)))
    (tmp_path / "membership").write_text(membership)
    return KernelFiles(tmp_path / "mounts", tmp_path / "membership")


def group(path: Path, controllers: str = "", enabled: str = "") -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("")
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(enabled)


def test_no_hierarchy(tmp_path: Path) -> None:
    assert find_hierarchy(Path("/r"), machine(tmp_path, "tmpfs /tmp tmpfs rw 0 0\n", "0::/\n")) is None
    assert find_hierarchy(Path("/r"), KernelFiles(tmp_path / "absent", tmp_path / "absent")) is None
    nothing = Cgroups(Path("/r"), Hierarchy(False, {}))
    assert nothing.make("c", LIMITS) == NO_CGROUPS


def test_version_2_without_controllers_is_given_up_cleanly(tmp_path: Path) -> None:
    group(tmp_path / "unified")
    found = find_hierarchy(Path("/r"), machine(tmp_path, "cgroup2 TOP/unified cgroup2 rw 0 0\n", "0::/\n"))
    assert found is None
    assert [path for path in (tmp_path / "unified").iterdir() if path.is_dir()] == []


def test_version_1_below_our_own_group_or_at_the_top(tmp_path: Path) -> None:
    mounts = "cgroup TOP/memory cgroup rw,memory 0 0\ncgroup TOP/cpu cgroup rw,cpu,cpuacct 0 0\n"
    (tmp_path / "memory" / "us").mkdir(parents=True)
    (tmp_path / "memory" / "us" / "cgroup.procs").write_text("")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cgroup.procs").write_text("")
    found = find_hierarchy(Path("/r"), machine(tmp_path, mounts, "2:memory:/us\n1:cpu,cpuacct:/not/mounted\n0::/\n"))
    assert found is not None
    assert not found.unified
    assert {name: base.parent for name, base in found.bases.items()} == {
        "memory": tmp_path / "memory" / "us",
        "cpu": tmp_path / "cpu",
    }


class Kernel2:
    """A version 2 group whose files exist as soon as a container's directory does."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def container(self, id: str, *names: str) -> Path:
        place = self.base / id
        place.mkdir(parents=True)
        for name in ("cgroup.procs", *names):
            (place / name).write_text("")
        return place


def test_a_containers_life_in_version_2(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = Kernel2(tmp_path / "base")
    place = kernel.container("c1", "cpu.max", "cpu.weight", "memory.max", "pids.max")
    cgroups = Cgroups(Path("/r"), Hierarchy(True, dict.fromkeys(("cpu", "memory", "pids"), kernel.base)))
    assert cgroups.describe() == "limits by cgroup v2: cpu memory pids"
    member = cgroups.make("c1", LIMITS)
    assert member == ([str(place)], str(place / "memory.events"), ())
    assert (place / "memory.max").read_text() == str(64 << 20)
    assert (place / "cpu.max").read_text() == "50000 100000"
    assert not caplog.records, "files a kernel may not have are let be"
    (place / "memory.max").unlink()
    cgroups.make("c1", LIMITS)
    assert "memory.max" in caplog.text, "a limit that does not hold is told"
