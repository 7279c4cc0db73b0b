"""Flags and settings of CPU, memory and topology management: kubelet's names, and one line for what is wrong."""

from pathlib import Path

import msgspec
import pytest

from protocols.errors import SettingsInvalid
from protocols.node.alignment import Alignment
from protocols.process.settings import Settings
from supervisor.base.errors import UsageError
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of
from supervisor.cli.flags import Parser, add_plane_flags, plane_options
from tests.support.machines import Described, write_machine


def settings(*words: str) -> Alignment:
    parser = Parser(prog="np")
    add_plane_flags(parser)
    return settings_of(plane_options(parser.parse_args(["--root=/r", "--node-name=n", *words]), {}), 1).alignment


def test_everything_is_off_by_default() -> None:
    found = settings_of(PlaneOptions(root="/r", node_name="n"), 1)
    assert found.alignment == Alignment()
    assert (found.alignment.pins_cpus, found.alignment.pins_memory, found.alignment.aligns) == (False, False, False)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Settings) == found


def test_all_of_it(tmp_path: Path) -> None:
    write_machine(tmp_path, Described())
    found = settings(
        "--cpu-manager-policy=static",
        "--cpu-manager-policy-options=full-pcpus-only=true,strict-cpu-reservation=true",
        "--memory-manager-policy=Static",
        "--topology-manager-policy=restricted",
        "--topology-manager-scope=pod",
        "--topology-manager-policy-options=prefer-closest-numa-nodes=true,max-allowable-numa-nodes=16",
        "--reserved-cpus=0-1,8",
        "--reserved-memory=0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=512Mi",
        "--reserved-memory=2:memory=512Mi",
        "--kube-reserved=memory=1Gi,cpu=500m",
        "--system-reserved=memory=1Gi,ephemeral-storage=10Gi",
        f"--sysfs-root={tmp_path}",
    )
    assert found.named_cpus == {0, 1, 8}
    assert found.reserved_by_node[0] == {"memory": 1 << 30, "hugepages-1Gi": 2 << 30}
    assert found.kept == {
        "cpu": 3000,
        "memory": 2 << 30,
        "hugepages-1Gi": 2 << 30,
        "ephemeral-storage": 10 << 30,
    }
    assert found.sysfsRoot == str(tmp_path)


@pytest.mark.parametrize(
    ("tree", "cpus", "says"),
    [
        (".", "64-65", "--reserved-cpus 64-65 names no CPU that is online; there are 0-1"),
        ("none", "0", "none has no directory sys/devices/system/cpu"),
    ],
)
def test_flags_that_fit_no_cpu_are_found_at_the_command_line(tree: str, cpus: str, says: str, tmp_path: Path) -> None:
    write_machine(tmp_path, Described())
    with pytest.raises(UsageError, match=says):
        settings(f"--sysfs-root={tmp_path / tree}", f"--reserved-cpus={cpus}")


def test_without_a_list_the_amounts_count() -> None:
    found = settings("--kube-reserved=cpu=500m", "--system-reserved=cpu=1", "--cpu-manager-policy=static")
    assert found.reserved_millis == 1500


def test_pid_of_a_kubelets_configuration_has_no_effect() -> None:
    assert settings("--kube-reserved=pid=1000,cpu=1").kept == settings("--kube-reserved=cpu=1").kept


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--cpu-manager-policy=Static", "cpuManagerPolicy 'Static' is none of none, static"),
        ("--cpu-manager-policy=static", "reserves CPUs for the system: give --reserved-cpus"),
        ("--memory-manager-policy=Static", "reserves memory for the system: give --reserved-memory"),
        ("--memory-manager-policy=static", "is none of None, Static"),
        ("--topology-manager-policy=strict", "is none of none, best-effort"),
        ("--topology-manager-scope=node", "is none of container, pod"),
        ("--cpu-manager-policy-options=full-pcpus-only", "is no NAME=VALUE"),
        ("--cpu-manager-policy-options=turbo=true", "has no 'turbo'; there are full-pcpus-only"),
        ("--cpu-manager-policy-options=full-pcpus-only=yes", "is none of true, false"),
        (
            "--cpu-manager-policy-options=full-pcpus-only=true,distribute-cpus-across-cores=true",
            "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
        ),
        (
            "--cpu-manager-policy-options=align-by-socket=true --topology-manager-policy=single-numa-node",
            "contradict one another",
        ),
        ("--topology-manager-policy-options=max-allowable-numa-nodes=7", "is no number of 8 or more"),
        ("--topology-manager-policy-options=turbo=1", "has no 'turbo'"),
        ("--reserved-cpus=0-", "is no list of CPUs"),
        ("--reserved-memory=memory=1Gi", "is no NODE:TYPE=SIZE"),
        ("--reserved-memory=0:memory=1Gi --reserved-memory=0:memory=2Gi", "names a node twice"),
        ("--reserved-memory=x:memory=1Gi", "nodes are numbers"),
        ("--reserved-memory=²:memory=1Gi", "nodes are numbers"),
        ("--topology-manager-policy-options=max-allowable-numa-nodes=²", "is no number of 8 or more"),
        ("--reserved-memory=0:swap=1Gi", "has no type 'swap'"),
        ("--reserved-memory=0:memory=lots", "is no amount"),
        ("--reserved-memory=0:memory=-1Gi", "is no amount"),
        ("--reserved-memory=0:memory=1Gi --memory-manager-policy=Static", "the two must agree"),
        ("--system-reserved=pid=many", "is no amount"),
        ("--kube-reserved=gpu=1", "is none of cpu, memory"),
        ("--system-reserved=cpu=1,cpu=2", "names something twice"),
    ],
)
def test_wrong_ones_are_named_in_one_line(flags: str, says: str) -> None:
    with pytest.raises((UsageError, SettingsInvalid), match=says) as caught:
        settings(*flags.split())
    assert "\n" not in str(caught.value)
