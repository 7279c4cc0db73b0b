"""The checkpoint: what is written is read, what is damaged is kept aside, what is acknowledged is on disk."""

import asyncio
import errno
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.ledger import kubelet_checkpoint as kubelet
from actors.devices.ledger.checkpoint import CheckpointFiles, Snapshot
from actors.devices.ledger.committer import Committer, CommitterOptions
from actors.devices.ledger.state import LedgerState, Override, decode, encode
from actors.devices.manager import DeviceManager
from actors.devices.model.errors import CheckpointCorrupt, CheckpointNotWritten
from protocols.lifecycle.devices.claims import PodClaims
from protocols.lifecycle.devices.ledger import Ledger
from protocols.lifecycle.devices.types import PodRecord
from protocols.messages.allocation_history import RETAINED, AllocationHistory
from protocols.messages.devices import (
    AllocatedDevice,
    ContainerAllocation,
    LedgerEvent,
    PodAllocation,
    PreparedClaim,
)

R = "example.com/gpu"
RESPONSE = b"\x0a\x02\x0a\x00"


def record(uid: str, *ids: str) -> PodRecord:
    devices = tuple(AllocatedDevice(R, id) for id in ids)
    allocation = PodAllocation(uid, "default", uid, (ContainerAllocation("main", devices=devices),))
    return PodRecord(allocation, {"main": {R: RESPONSE}})


STATE = LedgerState(mark=7, pods=(record("p1", "a"),), overrides=(Override(R, "a", "Unhealthy"),), resources=(R,))
SNAPSHOT = Snapshot(STATE, {R: ["b"]})


def files(directory: Path) -> CheckpointFiles:
    return CheckpointFiles(directory / "devices", directory / "device-plugins")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = files(tmp_path)
    assert (file.load().state.pods, file.load().warnings) == ((), ())
    file.save(SNAPSHOT)
    found = files(tmp_path).load()
    assert msgspec.structs.replace(found.state, kubelet="", before="") == STATE
    assert (found.registered, found.warnings) == ((R,), ())
    for path in (file.ours, file.kubelets):
        assert path.stat().st_mode & 0o777 == 0o600


@given(st.data())
def test_any_damage_is_noticed(data: st.DataObject) -> None:
    raw = encode(STATE).rstrip(b"\n")
    place = data.draw(st.integers(0, len(raw) - 1))
    flipped = bytes([raw[place] ^ 1 << data.draw(st.integers(0, 7))])
    damaged = data.draw(st.sampled_from([raw[:place], raw[:place] + flipped + raw[place + 1 :]]))
    with pytest.raises(CheckpointCorrupt):
        decode(damaged)


@pytest.mark.scenario("S26")
@pytest.mark.parametrize("kubelets", [b"[", b'{"Data":{"RegisteredDevices":{"\xff":[]}},"Checksum":1}'])
def test_corrupt_files_are_kept_aside_and_a_new_lineage_begins(kubelets: bytes, tmp_path: Path) -> None:
    file = files(tmp_path)
    file.load()
    file.ours.write_bytes(b"{}")
    file.kubelets.write_bytes(kubelets)
    found = file.load()
    assert found.state.pods == ()
    assert found.state.mark > 1 << 40
    assert ["is corrupt" in line for line in found.warnings] == [True, True, False]
    assert file.ours.with_name("checkpoint.json.corrupt").read_bytes() == b"{}"
    assert file.ours.with_name("kubelet_internal_checkpoint.corrupt").read_bytes() == kubelets
    file.save(SNAPSHOT)
    assert kubelet.decode(file.kubelets.read_bytes()).registered == {R: ["b"]}


def test_what_is_no_file_is_set_aside_and_rebuilt_from_the_other(tmp_path: Path) -> None:
    file = files(tmp_path)
    file.load()
    file.save(SNAPSHOT)
    file.ours.unlink()
    os.mkfifo(file.ours)
    found = file.load()
    assert [pod.allocation.uid for pod in found.state.pods] == ["p1"]
    assert "was no file and has the suffix .corrupt" in found.warnings[0]
    file.kubelets.unlink()
    file.kubelets.mkdir()
    assert file.load().lost
    file.save(SNAPSHOT)
    assert not file.load().warnings


def test_a_corrupt_file_is_rebuilt_from_the_other(tmp_path: Path) -> None:
    file = files(tmp_path)
    file.load()
    file.save(SNAPSHOT)
    file.kubelets.write_bytes(file.kubelets.read_bytes()[:-9])
    found = file.load()
    assert found.state.pods == STATE.pods
    assert len(found.warnings) == 1
    file.save(SNAPSHOT)
    file.ours.write_bytes(file.ours.read_bytes()[:40])
    found = file.load()
    [pod] = found.state.pods
    assert (pod.allocation.uid, pod.has_pod_name, pod.responses) == ("p1", False, STATE.pods[0].responses)
    assert pod.allocation.containers == STATE.pods[0].allocation.containers
    assert "device allocations of 1 pods taken from kubelet's checkpoint" in found.warnings[-1]


def test_what_a_kubelet_wrote_meanwhile_is_believed(tmp_path: Path) -> None:
    file = files(tmp_path)
    file.load()
    idle = PodRecord(PodAllocation("idle", "default", "idle", (ContainerAllocation("main"),)))
    file.save(Snapshot(LedgerState(mark=7, pods=(record("p1", "a"), record("p2", "b"), idle)), {R: ["a", "b"]}))
    entries = (
        kubelet.CheckpointEntry("p1", "main", R, {0: ["c"]}, RESPONSE),
        kubelet.CheckpointEntry("p3", "main", R, {-1: ["a", "c"]}, None),
        kubelet.CheckpointEntry("p4", "main", R, {-1: ["d"]}, RESPONSE[:-1]),
    )
    file.kubelets.write_bytes(kubelet.encode(kubelet.Data(entries, {R: [], "a.b/c": ["1"]})))
    found = file.load()
    p1, p3, left = found.state.pods
    assert (p1.allocation.name, p1.allocation.containers[0].devices) == ("p1", (AllocatedDevice(R, "c", (0,)),))
    assert p1.responses == {"main": {R: RESPONSE}}
    assert (p3.has_pod_name, p3.allocation.containers[0].devices) == (False, (AllocatedDevice(R, "a"),))
    assert left == idle
    assert found.registered == ("a.b/c", R)
    assert found.state.mark > 1 << 40
    assert found.warnings[1:] == (
        f"kubelet's checkpoint gives {R} c to two pods",
        "kubelet's checkpoint has 1 allocations with a malformed response, which are ignored",
    )


def test_a_crash_between_the_two_files_loses_and_invents_nothing(tmp_path: Path) -> None:
    file = files(tmp_path)
    file.load()
    file.save(SNAPSHOT)
    older = file.kubelets.read_bytes()
    both = LedgerState(mark=8, pods=(*STATE.pods, record("p2", "c")), resources=(R,))
    file.save(Snapshot(both, {R: ["b"]}))
    file.kubelets.write_bytes(older)
    found = file.load()
    assert (found.state.pods, found.state.mark, found.warnings) == (both.pods, 8, ())


def test_the_state_of_our_earlier_version_is_taken_over(tmp_path: Path) -> None:
    file = files(tmp_path)
    file.load()
    file.ours.write_bytes(encode(msgspec.structs.replace(STATE, version=1)))
    assert file.load().state == STATE
    file.ours.write_bytes(encode(msgspec.structs.replace(STATE, version=3)))
    assert "it has version 3, this program reads 1 to 2" in file.load().warnings[0]


class Disk:
    """Stands where the file does; `full` makes it refuse."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.history = AllocationHistory(100)
        self.saved: list[LedgerState] = []
        self.told: list[LedgerEvent] = []
        self.lines: list[str] = []
        self.full = False

    def save(self, snapshot: Snapshot) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.saved.append(snapshot.state)

    def publish(self, event: LedgerEvent) -> None:
        assert self.saved[-1].mark >= event.mark, "published before it was on disk"
        assert event in self.saved[-1].recent
        self.told.append(event)

    def undo(self, undone: PodRecord) -> None:
        self.ledger.release(undone.allocation.uid)

    def options(self) -> CommitterOptions:
        return CommitterOptions(
            snapshot=lambda: Snapshot(LedgerState(pods=tuple(self.ledger.pods.values())), {}),
            save=self.save,
            publish=self.publish,
            undo=self.undo,
            log=self.lines.append,
            retry=0.01,
        )

    def admit(self, commits: Committer, uid: str, *ids: str) -> "asyncio.Future[None]":
        item = record(uid, *ids)
        self.ledger.admit(item)
        return commits.change(item)

    def release(self, commits: Committer, uid: str) -> "asyncio.Future[None]":
        item = self.ledger.release(uid)
        assert item is not None
        return commits.change(item, deleted=True)


async def test_changes_are_on_disk_before_they_are_published_and_share_writes() -> None:
    disk = Disk()
    commits = Committer(disk.history, disk.options())
    running = asyncio.create_task(commits.run())
    await asyncio.gather(*(disk.admit(commits, f"p{number}", f"d{number}") for number in range(20)))
    await disk.release(commits, "p3")
    assert [event.mark for event in disk.told] == list(range(101, 122))
    assert len(disk.saved) < 20
    assert {item.allocation.uid for item in disk.saved[-1].pods} == {f"p{n}" for n in range(20) if n != 3}
    running.cancel()


async def test_second_call_about_a_pod_waits_for_the_write_of_the_first() -> None:
    disk = Disk()
    commits = Committer(disk.history, disk.options())
    first = disk.admit(commits, "p1", "a")
    second = asyncio.create_task(commits.wait_pod_written("p1"))
    await commits.wait_pod_written("p2")  # nothing of it waits
    assert not second.done()
    running = asyncio.create_task(commits.run())
    await second
    assert first.done()
    await commits.wait_pod_written("p1")
    running.cancel()


async def test_a_full_disk_refuses_admissions_and_keeps_releases() -> None:
    disk = Disk()
    commits = Committer(disk.history, disk.options())
    running = asyncio.create_task(commits.run())
    await disk.admit(commits, "p1", "a")
    disk.full = True
    released = disk.release(commits, "p1")
    with pytest.raises(CheckpointNotWritten, match="No space left"):
        await disk.admit(commits, "p2", "a")
    with pytest.raises(CheckpointNotWritten, match="No space left"):
        await disk.admit(commits, "p2", "a")
    assert not released.done()
    assert disk.ledger.pods == {}
    disk.full = False
    await released
    await disk.admit(commits, "p3", "a")
    assert [(event.allocation.uid, event.deleted) for event in disk.told] == [
        ("p1", False),
        ("p1", True),
        ("p3", False),
    ]
    assert [event.mark for event in disk.told] == [101, 102, 103]
    assert [line.split(":")[0] for line in disk.lines] == [
        "cannot write the device checkpoint",
        "device checkpoint writable again",
    ]
    running.cancel()


async def test_writers_waiting_for_the_disk_get_its_error() -> None:
    disk = Disk()
    commits = Committer(disk.history, disk.options())
    running = asyncio.create_task(commits.run())
    disk.full = True
    commits.request_write()
    with pytest.raises(CheckpointNotWritten, match="No space left"):
        await commits.wait_written()
    disk.full = False
    commits.request_write()
    await commits.wait_written()
    assert disk.saved
    running.cancel()


async def test_wait_written_ends_with_its_own_write_although_more_is_handed_in_during_each() -> None:
    disk, loop = Disk(), asyncio.get_running_loop()

    def save(snapshot: Snapshot) -> None:
        disk.saved.append(snapshot.state)
        if len(disk.saved) < 50:
            loop.call_soon_threadsafe(commits.request_write)

    commits = Committer(disk.history, msgspec.structs.replace(disk.options(), save=save))
    running = asyncio.create_task(commits.run())
    commits.request_write()
    await commits.wait_written()
    assert len(disk.saved) < 5
    running.cancel()


async def test_claims_published_twice_wait_for_the_write_of_the_first() -> None:
    disk = Disk()
    commits = Committer(disk.history, disk.options())
    disk.ledger.admit(record("p1", "a"))
    manager = DeviceManager.__new__(DeviceManager)
    manager._ledger, manager.committer = disk.ledger, commits
    claims = PodClaims({}, (PreparedClaim("default", "card", "c1"),))
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(manager.publish_claims("p1", claims)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in both)
        running = asyncio.create_task(commits.run())
    assert [pod.allocation.claims for pod in disk.saved[-1].pods] == [claims.unreferenced]
    running.cancel()


def test_history_is_bounded_and_says_what_it_lost() -> None:
    history = AllocationHistory(0)
    for mark in range(1, RETAINED + 11):
        history.append(LedgerEvent(mark, record(f"p{mark}").allocation))
    assert (history.floor, history.mark) == (10, RETAINED + 10)
    assert history.since(9) is None
    assert history.since(RETAINED + 11) is None
    assert [event.mark for event in history.since(RETAINED + 8) or ()] == [RETAINED + 9, RETAINED + 10]
    assert history.since(RETAINED + 10) == []
    assert AllocationHistory(history.mark, history.retained()).floor == 10
