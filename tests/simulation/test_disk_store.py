"""The store on a disk that loses power, fills up and fails, at every call that changes the disk."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from actors.store.file import upkeep
from actors.store.file.history import surviving_rows
from actors.store.file.object_log import ObjectLog
from actors.store.file.rows import DAMAGED
from actors.store.model.errors import DiskFailed, NoSpace, StoreError
from actors.store.model.options import StoreOptions
from actors.store.model.types import Commit, KeyChange, LeaseRecord
from protocols.etcd.types import KeyValue
from tests.simulation.disk.stub import StubMachine, stub_machine

LONG = 25
"""Changes of a long commit."""
FIRST = 2
"""Revision of the first commit."""
Rows = dict[int, list[tuple[bytes, bytes]]]
"""Keys and values by revision."""


@pytest.fixture
def machine() -> Iterator[StubMachine]:
    with stub_machine() as made:
        yield made


class Writer:
    """A short history of commits and upkeep. `acknowledged` holds what was said to be on disk."""

    def __init__(self, machine: StubMachine, sync: str = "full") -> None:
        root = machine.root
        self._options = StoreOptions(
            directory=root / "control" / "store",
            socket=root,
            address_file=root,
            ca=root,
            cert=root,
            key=root,
            sync=sync,
        )
        self.acknowledged: Rows = {}
        self.compacted = 0
        self.errors: list[StoreError] = []
        self._shown: list[ObjectLog] = []
        """Never closed."""
        self._revision = FIRST

    def live(self) -> None:
        """Open, write, keep up, close."""
        log = ObjectLog(self._options)
        self._revision = log.open().revision + 1
        begin = self._revision
        self._commits(log, 1, 1, 3)
        self._try(lambda: upkeep.checkpoint(log))
        self._commits(log, 2, 1)
        self._try(lambda: self._commit(log, 1, [LeaseRecord(7, 60, 1.0)]))
        self._try(lambda: upkeep.checkpoint(log))
        self._try(lambda: self._commit(log, 1, compacted=begin + 2))
        self._try(lambda: sum(1 for _ in iter(lambda: upkeep.sweep(log), False)))
        self._commits(log, 1)
        self._try(lambda: upkeep.checkpoint(log, "TRUNCATE"))
        self._commits(log, 1)
        self._try(lambda: upkeep.defragment(log))
        self._commits(log, 1)
        log.close()

    def fail_then_die(self, machine: StubMachine, operation: str, fail_at: int, kill_at: int) -> None:
        """Fail a call of a long commit, go on with a short one, and die within the next."""
        log, disk = ObjectLog(self._options), machine.disk
        self._revision = log.open().revision + 1
        self._commits(log, 1)
        disk.on_last_call = lambda owner: disk.faults.failing.update({operation: 1})
        disk.faults.calls_left = fail_at
        self._try(partial(self._commit, log, LONG))
        disk.faults.failing.clear()
        self._commits(log, 1)
        disk.on_last_call = lambda owner: setattr(owner, "alive", False)
        disk.faults.calls_left = kill_at
        self._commits(log, 1)

    def _commits(self, log: ObjectLog, *sizes: int) -> None:
        for size in sizes:
            self._try(partial(self._commit, log, size))

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except StoreError as error:
            self.errors.append(error)

    def _commit(self, log: ObjectLog, size: int, leases: list[LeaseRecord] | None = None, compacted: int = 0) -> None:
        at = self._revision
        keys = [KeyValue(b"/%d" % ((at + n) % 5), b"%d" % at * 2000, at, at, 1) for n in range(size)]
        log.commit(Commit([KeyChange(key, None) for key in keys], leases or [], [], compacted or self.compacted))
        self.acknowledged[at] = [(key.key, key.value) for key in keys]
        self.compacted = compacted or self.compacted
        self._revision = at + 1

    def show(self) -> int:
        """Open the file, as a server that is killed before it writes, and return the revision that clients see."""
        log = ObjectLog(self._options)
        self._shown.append(log)
        return log.open().revision

    def check(self) -> None:
        """Open the file and compare it with what was acknowledged."""
        log = ObjectLog(self._options)
        try:
            state = log.open()
            rows: Rows = defaultdict(list)
            for _, kv in surviving_rows(log.db, 0, state.revision):
                assert kv.value != DAMAGED
                rows[kv.mod_revision].append((kv.key, kv.value))
        finally:
            log.close()
        last = max(self.acknowledged, default=0)
        assert last <= state.revision <= max(last, FIRST - 1) + 1, "all, and perhaps the one on its way"
        assert last == 0 or state.compacted >= self.compacted
        for revision, wanted in self.acknowledged.items():
            if revision > state.compacted:
                assert rows.get(revision) == wanted


YOUNG = 50
"""Calls until the file is made; a kill among them may leave what a power cut in the next life shows."""


def cut_at_every_call(machine: StubMachine, *, power: bool, sync: str = "full") -> int:
    """Kill the store at calls of its life, all of them by power cuts; it opens then. Return the number of calls."""
    for kill_at in itertools.count(1):
        if kill_at % 3 and kill_at > YOUNG and not power:
            continue
        machine.format(kill_at)
        writer = Writer(machine, sync)
        killed = machine.run(writer.live, kill_at=kill_at)
        if power:
            machine.disk.cut()
        machine.run(writer.check)
        if kill_at % 10 == 0 or (kill_at < YOUNG and not power):
            writer.errors.clear()
            machine.run(writer.live)
            assert not writer.errors
            machine.disk.cut()
            machine.run(writer.check)
        if not killed:
            return kill_at
    raise AssertionError


def test_power_cut_at_every_call_loses_nothing_acknowledged(machine: StubMachine) -> None:
    assert cut_at_every_call(machine, power=True) > 150


def test_kill_at_many_calls_loses_nothing_acknowledged(machine: StubMachine) -> None:
    assert cut_at_every_call(machine, power=False) > 150


def test_power_cut_after_a_restart_loses_no_revision_that_was_shown(machine: StubMachine) -> None:
    for kill_at in range(60, 120):
        machine.format(kill_at)
        writer = Writer(machine)
        seen: list[int] = []
        machine.run(writer.live, kill_at=kill_at)
        machine.run(lambda writer=writer, seen=seen: seen.append(writer.show()))  # type: ignore[misc]
        machine.disk.cut()
        machine.run(lambda writer=writer, seen=seen: seen.append(writer.show()))  # type: ignore[misc]
        assert seen[0] == seen[1]


def test_acknowledged_before_sync_is_found(machine: StubMachine) -> None:
    with pytest.raises(AssertionError, match="perhaps the one on its way"):
        cut_at_every_call(machine, power=True, sync="normal")


@pytest.mark.parametrize("operation", ["write", "sync", "read"])
def test_failed_call_loses_nothing_acknowledged(machine: StubMachine, operation: str) -> None:
    failures = 0
    for number in range(60, 200, 5):
        machine.format(number)
        writer = Writer(machine)
        machine.run(writer.live, kill_at=number, then=lambda: machine.disk.faults.failing.update({operation: 1}))
        assert all(isinstance(error, DiskFailed) for error in writer.errors)
        failures += len(writer.errors)
        machine.disk.faults.failing.clear()
        machine.disk.cut()
        machine.run(writer.check)
    assert failures > (10 if operation != "read" else 0)


@pytest.mark.parametrize(("operation", "calls"), [("write", range(28, 37)), ("sync", range(1, 2))])
def test_failed_transaction_before_a_killed_one_is_no_damage(
    machine: StubMachine, operation: str, calls: range
) -> None:
    """The rest of the failed one, which is longer, would be behind that of the killed one."""
    failed = 0
    for fail_at, kill_at in itertools.product(calls, (6, 8, 10, 12)):
        machine.format(fail_at)
        writer = Writer(machine)
        killed = machine.run(partial(writer.fail_then_die, machine, operation, fail_at, kill_at))
        failed += killed and len(writer.errors)
        machine.run(writer.check)
    assert failed >= len(calls)


def test_full_disk_rejects_writes_and_loses_nothing_acknowledged(machine: StubMachine) -> None:
    for free in range(0, 120_000, 5700):
        machine.format(free)
        writer = Writer(machine)
        machine.run(writer.live)
        before = dict(writer.acknowledged)
        machine.disk.faults.free = free
        machine.run(writer.live)
        assert all(isinstance(error, NoSpace | DiskFailed) for error in writer.errors)
        assert writer.errors or len(writer.acknowledged) > len(before)
        machine.disk.cut()
        machine.run(writer.check)
