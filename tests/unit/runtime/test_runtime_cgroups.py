"""Limits as files, and the search for a hierarchy, in directories that look like the kernel's."""

import os
from pathlib import Path

import pytest

from actors.runtime.cgroups.hierarchy import NO_CGROUPS, Cgroups, Hierarchy, KernelFiles, find_hierarchy
from actors.runtime.cgroups.limits import settings, weight
from actors.runtime.cgroups.pods import PodGroup, balance, pod_group
from actors.runtime.model.errors import InvalidRequest
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
    (tmp_path / "mounts").write_bytes(os.fsencode(mounts.replace("TOP", str(tmp_path))))
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
    odd = "/dev/sda /media/\udcfcber\u2028x ext4 rw 0 0\n"  # a path of the kernel may be any bytes
    mounts = f"{odd}cgroup TOP/memory cgroup rw,memory 0 0\ncgroup TOP/cpu cgroup rw,cpu,cpuacct 0 0\n"
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
    assert member == ([str(place)], str(place / "memory.events"), (), ((str(place), ""),))
    assert (place / "memory.max").read_text() == str(64 << 20)
    assert (place / "cpu.max").read_text() == "50000 100000"
    assert not caplog.records, "files a kernel may not have are let be"
    (place / "memory.max").unlink()
    cgroups.make("c1", LIMITS)
    assert "memory.max" in caplog.text, "a limit that does not hold is told"


def pod_config(parent: str, **unified: str) -> pb.PodSandboxConfig:
    limits = pb.LinuxContainerResources(cpu_quota=200_000, cpu_period=100_000, memory_limit_in_bytes=32 << 20)
    limits.cpu_shares = 4096
    for key, value in unified.items():
        limits.unified[key.replace("_", ".")] = value
    return pb.PodSandboxConfig(linux=pb.LinuxPodSandboxConfig(cgroup_parent=parent, resources=limits))


def test_group_of_a_pod_has_the_limits_that_are_its_own() -> None:
    assert pod_group(pod_config("/kubepods/podx"), unified=False) == PodGroup("kubepods/podx", (), 2)
    made = pod_group(pod_config("/kubepods/podx", memory_max="x", cpu_max="y"), unified=True)
    assert {setting.file: setting.value for setting in made.limits} == {
        "cpu.max": "200000 100000",
        "memory.max": str(32 << 20),
        "memory.swap.max": "0",
    }
    assert pod_group(pod_config("/p", cpu_weight="1"), unified=False).shares == 4096
    assert pod_group(pod_config("", memory_max="x"), unified=True).limits == ()


@pytest.mark.parametrize("parent", ["/a/../b", "..", "a b", "/".join("abcdefghi"), "x" * 300, "-a", "a\nb"])
def test_cgroup_parent_that_is_no_plain_path_is_rejected(parent: str) -> None:
    with pytest.raises(InvalidRequest, match="cgroup_parent"):
        pod_group(pod_config(parent), unified=False)


class Kernel1:
    """Directories of version 1, whose control files exist as soon as a group does."""

    def __init__(self, top: Path) -> None:
        self.bases = {name: top / name for name in ("cpu", "memory")}
        for base in self.bases.values():
            base.mkdir()

    def group(self, path: str) -> None:
        """Create a group as the kernel would when the runtime makes the directory."""
        for name, base in self.bases.items():
            place = base
            for part in Path(path).parts:
                place = place / part
                place.mkdir(exist_ok=True)
                files = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us") if name == "cpu" else MEMORY_FILES
                for file in (*files, "cgroup.procs"):
                    (place / file).touch()

    def value(self, controller: str, path: str) -> str:
        return (self.bases[controller] / path).read_text()


MEMORY_FILES = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")


def test_shares_of_pods_and_of_their_class_are_sums(tmp_path: Path) -> None:
    kernel = Kernel1(tmp_path)
    cgroups = Cgroups(Path("/r"), Hierarchy(False, kernel.bases))
    for pod, container, shares in (("pod1", "a", 512), ("pod1", "b", 256), ("pod2", "c", 100)):
        kernel.group(f"kubepods/burstable/{pod}/{container}")
        asked = pb.LinuxContainerResources(cpu_shares=shares)
        member = cgroups.make(container, asked, PodGroup(f"kubepods/burstable/{pod}"))
        assert {name for _, name in member.views} == {"cpu", "memory"}, "a later limit is seen inside, too"
    assert kernel.value("cpu", "kubepods/burstable/pod1/cpu.shares") == "768"
    assert kernel.value("cpu", "kubepods/burstable/cpu.shares") == "868"
    limits = pod_group(pod_config("kubepods/burstable/pod1", memory_max="1"), unified=False)
    cgroups.update_pod(limits)
    assert kernel.value("memory", "kubepods/burstable/pod1/memory.limit_in_bytes") == str(32 << 20)
    assert kernel.value("cpu", "kubepods/burstable/pod1/cpu.cfs_quota_us") == "", "only memory is the pod's"


def test_shares_of_many_are_the_most_that_the_kernel_takes(tmp_path: Path) -> None:
    for name, shares in (("pod1", "200000"), ("pod2", "200000")):
        (tmp_path / "burstable" / name / "a").mkdir(parents=True)
        (tmp_path / "burstable" / name / "a" / "cpu.weight").write_text(str(weight(int(shares))))
        (tmp_path / "burstable" / name / "cpu.weight").write_text("100")
        (tmp_path / "burstable" / "cpu.weight").write_text("100")
    for name in ("pod1", "pod2"):
        balance(tmp_path, PodGroup(f"burstable/{name}"), unified=True)
    assert (tmp_path / "burstable" / "pod1" / "cpu.weight").read_text() == str(weight(200_000))
    assert (tmp_path / "burstable" / "cpu.weight").read_text() == "10000", "more would be an error, and leave 100"


def test_container_without_limits_is_in_the_group_of_a_limited_pod(tmp_path: Path) -> None:
    kernel = Kernel1(tmp_path)
    kernel.group("kubepods/pod1/a")
    cgroups = Cgroups(Path("/r"), Hierarchy(False, kernel.bases))
    asked = pb.LinuxContainerResources(cpu_shares=2)
    assert cgroups.make("a", asked, PodGroup("kubepods/pod1")).groups == []
    limited = pod_group(pod_config("kubepods/pod1", memory_max="1"), unified=False)
    member = cgroups.make("a", asked, limited)
    assert member.groups == [str(kernel.bases[name] / "kubepods/pod1/a") for name in ("cpu", "memory")]
    assert member.oom == str(kernel.bases["memory"] / "kubepods/pod1/a" / "memory.oom_control")
    assert kernel.value("cpu", "kubepods/pod1/a/cpu.shares") == "2"
