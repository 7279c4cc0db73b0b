"""What sysfs tells of a machine, and what state files look like."""

from pathlib import Path

import pytest

from actors.devices.cpu import state_file as cpu_file
from actors.devices.machine.machine_manager import StateFiles
from actors.devices.machine.sysfs import online_cpus, read_hardware
from actors.devices.memory import state_file as memory_file
from actors.devices.memory.nodes import MemoryTable, NodeMemory
from actors.devices.model.errors import MachineUnreadable, StateFileCorrupt
from protocols.errors import SettingsInvalid
from protocols.messages.devices import AllocatedMemory
from protocols.node.cpulist import format_list, parse_list
from tests.support.machines import GIB, Described, set_online, write_machine

DUAL = Described(sockets=2, cores_per_node=4, threads=2, memory=8 * GIB, huge={2048: 512, 1048576: 1}, bare_nodes=1)


def test_a_machine_is_read_whole(tmp_path: Path) -> None:
    found = read_hardware(write_machine(tmp_path, DUAL))
    assert found.cpus.cpus == set(range(16))
    assert found.cpus.places[13] == found.cpus.places[5]
    assert (found.cpus.places[13].core, found.cpus.places[13].socket, found.cpus.places[13].node) == (5, 1, 1)
    assert found.cpus.threads_per_core == 2
    assert found.numa.nodes == (0, 1, 2), "a node without CPUs is one"
    assert found.numa.distances[0] == {0: 10, 1: 20, 2: 20}
    assert found.memory[2] == {"memory": 8 * GIB, "hugepages-1Gi": GIB, "hugepages-2Mi": GIB}
    assert found.hugepages == {"hugepages-1Gi": 3 * GIB, "hugepages-2Mi": 3 * GIB}
    assert found.total == 24 * GIB


def test_offline_cpus_are_not_there_and_leave_their_sibling_alone(tmp_path: Path) -> None:
    root = write_machine(tmp_path, DUAL)
    set_online(root, DUAL, set(range(16)) - {0, 9})
    found = read_hardware(root)
    assert found.cpus.cpus == set(range(16)) - {0, 9}
    assert found.cpus.places[8].core == 8
    set_online(root, DUAL, range(16))
    assert read_hardware(root).cpus.places[8].core == 0


def test_no_nodes_and_no_list_of_online_cpus(tmp_path: Path) -> None:
    for cpu in range(3):
        (tmp_path / f"sys/devices/system/cpu/cpu{cpu}").mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 1 kB\nMemTotal: 2048 kB\n")
    found = read_hardware(tmp_path)
    assert online_cpus(tmp_path) == {0, 1, 2}
    assert found.memory == {0: {"memory": 2 << 20}}
    assert found.numa.nodes == (0,)
    assert {place.cache for place in found.cpus.places.values()} == {-1}, "no cache is told of: the node is one"


def test_the_machine_we_are_on() -> None:
    found = read_hardware(Path("/"))
    assert found.cpus.cpus
    assert found.total > 0


@pytest.mark.parametrize("text", ["0-", "a", "3-1", "1,2,x", "0-99999999"])
def test_garbage_is_no_list(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid):
        parse_list(text)
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text(text)
    with pytest.raises(MachineUnreadable):
        read_hardware(tmp_path)
    with pytest.raises(MachineUnreadable, match="is it a sysfs tree"):
        read_hardware(tmp_path / "nothing")


def test_lists_both_ways() -> None:
    assert parse_list(" 0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    assert format_list({11, 10, 8, 0, 1, 2, 3}) == "0-3,8,10-11"
    assert (format_list([]), format_list([3]), format_list([3, 4, 5, 9, 11, 12])) == ("", "3", "3-5,9,11-12")
    assert parse_list("") == set()


def test_checksums_are_a_kubelets() -> None:
    assert cpu_file.encode("none", frozenset(), {}) == (
        b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    )
    held = {"uid": {"c": frozenset({4, 5})}}
    raw = cpu_file.encode("static", frozenset(range(4)), held)
    assert raw.endswith(b'"entries":{"uid":{"c":"4-5"}},"checksum":3090832739}')
    assert cpu_file.decode(raw) == cpu_file.decode(raw.replace(b"3090832739", b"0")) == ("static", held)
    assert b"1902567528" in cpu_file.encode("static", parse_list("1,3-15,17,19-31"), {})
    assert b"4236770233" in memory_file.encode("None", {}, {})
    node = NodeMemory({"memory": MemoryTable(2048, 512, 1536, 512, 1024)}, 0, ())
    blocks = {"pod": {"container1": (AllocatedMemory("memory", 512, (0,)),)}}
    raw = memory_file.encode("static", {0: node}, blocks)
    assert b'"checksum":4215593881' in raw
    assert memory_file.decode(raw) == ("static", blocks, True)
    assert not memory_file.decode(raw.replace(b"1024", b"1025")).sound
    with pytest.raises(StateFileCorrupt):
        memory_file.decode(raw.replace(b"static", b"st\xe1tic"))


NO_UTF8 = b'{"policyName":"st\xe1tic","defaultCpuSet":"0","checksum":1}'
NO_NUMBER = b'{"policyName":"static","defaultCpuSet":"0","entries":{"u":{"c":"%s"}},"checksum":1}' % (b"1" * 5000)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"policyName":"static","defaultCpuSet":"0","checksum":1}', b"\xff" * 99, NO_UTF8, NO_NUMBER]
)
def test_a_corrupt_file_is_kept_aside(raw: bytes, tmp_path: Path) -> None:
    if raw:
        with pytest.raises(StateFileCorrupt):
            cpu_file.decode(raw)
    files = StateFiles(tmp_path)
    files.cpu.write_bytes(raw)
    found = files.load()
    assert "corrupt" in found.warnings[0]
    assert (tmp_path / "cpu_manager_state.corrupt").read_bytes() == raw
    assert found.cpu_policy == ""
    files.save(b"x", b"y")
    assert files.cpu.read_bytes() == b"x"
