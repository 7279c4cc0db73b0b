"""Kubelet's checkpoint: its bytes and its checksum, with null, empty and absent told apart (traps 15 and 16)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.ledger.kubelet_checkpoint import (
    CheckpointEntry,
    Data,
    EntryTexts,
    checksum,
    decode,
    encode,
    entries_of,
    entry_text,
    records_of,
)
from actors.devices.model.errors import CheckpointCorrupt
from actors.devices.model.go_checksum import OFFSET, Constant, fold
from protocols.lifecycle.devices.types import PodRecord
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation

R = "example.com/resource"
ENTRY = CheckpointEntry("uid-1", "c1", R, {-1: ["Dev-1", "Dev-2"], 0: ["x"]}, b"\x12\x0a\xff")
VECTOR = Data((ENTRY,), {R: ["Dev-1", "Dev-2"], "a.b/c": [], "n.n/n": None})

NAMES = st.text(max_size=8)
IDS = st.none() | st.lists(NAMES, max_size=3)
ENTRIES = st.builds(
    CheckpointEntry,
    NAMES,
    NAMES,
    NAMES,
    st.none() | st.dictionaries(st.integers(-1, 20), IDS),
    st.none() | st.binary(max_size=9),
)
DATA = st.builds(Data, st.none() | st.lists(ENTRIES, max_size=3).map(tuple), st.none() | st.dictionaries(NAMES, IDS))


def test_checksums_are_kubelets() -> None:
    assert checksum(Data(None, {})) == 3467439661
    assert checksum(VECTOR) == 1560520551


def test_a_file_of_a_real_kubelet_is_read() -> None:
    """As Go's encoder writes it."""
    data = {
        "PodDeviceEntries": [
            {
                "PodUID": "uid-1",
                "ContainerName": "c1",
                "ResourceName": R,
                "DeviceIDs": {"-1": ["Dev-1", "Dev-2"], "0": ["x"]},
                "AllocResp": "Egr/",
            }
        ],
        "RegisteredDevices": {"a.b/c": [], R: ["Dev-1", "Dev-2"], "n.n/n": None},
    }
    assert decode(json.dumps({"Data": data, "Checksum": 1560520551}).encode()) == VECTOR


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff", b'{"Data":null,"Checksum":1}', encode(VECTOR)[:-3]])
def test_other_files_are_not_taken_for_checkpoints(raw: bytes) -> None:
    with pytest.raises(CheckpointCorrupt, match="not kubelet's format"):
        decode(raw)


def test_the_old_format_with_plain_lists_is_refused_with_words() -> None:
    old = encode(VECTOR).replace(b'{"-1":["Dev-1","Dev-2"],"0":["x"]}', b'["Dev-1","Dev-2"]')
    with pytest.raises(CheckpointCorrupt, match=r"not kubelet's format.*DeviceIDs"):
        decode(old)


@given(DATA)
def test_what_is_written_is_read(data: Data) -> None:
    assert decode(encode(data)) == data


@given(DATA, st.binary(min_size=1, max_size=4))
def test_a_changed_list_does_not_have_the_checksum(data: Data, response: bytes) -> None:
    other = Data((*(data.entries or ()), CheckpointEntry("p", "c", R, {}, response)), data.registered)
    raw = encode(data).replace(str(checksum(data)).encode(), str(checksum(other)).encode())
    with pytest.raises(CheckpointCorrupt, match="checksum does not match"):
        decode(raw)


@given(st.binary(max_size=40), st.lists(st.binary(max_size=20), max_size=20))
def test_a_constant_end_is_hashed_as_if_it_were_walked(end: bytes, beginnings: list[bytes]) -> None:
    constant = Constant(end)
    for beginning in beginnings:
        assert constant.fold(fold(OFFSET, beginning)) == fold(OFFSET, beginning + end)


def record(uid: str, *devices: AllocatedDevice) -> PodRecord:
    allocation = PodAllocation(uid, "default", uid, (ContainerAllocation("main", devices=devices),))
    return PodRecord(allocation, {"main": {R: b"\x0a\xff"}})


def test_records_become_entries_and_entries_records() -> None:
    """A device on several nodes stands under each of them (trap 13)."""
    devices = (AllocatedDevice(R, "a", (0, 1)), AllocatedDevice(R, "b"), AllocatedDevice(R, "c", (1,)))
    [entry] = entries_of(record("p1", *devices))
    assert entry == CheckpointEntry("p1", "main", R, {0: ["a"], 1: ["a", "c"], -1: ["b"]}, b"\x0a\xff")
    found = records_of([entry])["p1"]
    assert found.allocation.containers == (ContainerAllocation("main", devices=devices),)
    assert found.responses == {"main": {R: b"\x0a\xff"}}


def test_texts_are_made_once_and_forgotten_with_their_records() -> None:
    texts = EntryTexts()
    first, second = record("p1", AllocatedDevice(R, "a")), record("p2", AllocatedDevice(R, "b"))
    assert texts.of([first, second])[1] == [entry_text(item) for r in (first, second) for item in entries_of(r)]
    again = record("p1", AllocatedDevice(R, "c"))
    entries, made = texts.of([again])
    assert entries == entries_of(again)
    assert made == [entry_text(entries[0])]
