"""Random histories of writes against a plain model: index, draft, log, compaction and history must agree with it."""

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.store.file import history
from actors.store.file.history import PastView, StoredRow, changes_since, history_hash, open_reader, surviving_rows
from actors.store.file.object_log import ObjectLog
from actors.store.file.upkeep import sweep
from actors.store.model.errors import DiskFailed, LeaseNotFound
from actors.store.model.options import StoreOptions
from actors.store.model.types import FOREVER, KeyChange, LeaseRecord
from actors.store.mvcc.index import Draft, KeyIndex
from actors.store.mvcc.lease_table import LeaseTable
from actors.store.mvcc.operations import compact, evaluate_range
from actors.store.mvcc.retention import Retention
from actors.store.rpc.kv import IN_TURN, KvService
from actors.store.rpc.lease import LeaseService, grant, revoke
from protocols.etcd.types import KeyValue
from protocols.wire import etcd_pb2 as pb

KEYS = [b"a", b"aa", b"b", b"b/1", b"b/2", b"c"]
Op = tuple[str, bytes, bytes]
OPS = st.tuples(st.sampled_from(["put", "delete", "fail"]), st.sampled_from(KEYS), st.binary(max_size=3))
RANGES = st.tuples(st.sampled_from(KEYS), st.sampled_from([b"", FOREVER, *KEYS]))


def options(folder: str) -> StoreOptions:
    path = Path(folder)
    return StoreOptions(directory=path, socket=path, address_file=path, ca=path, cert=path, key=path, sync="normal")


class World:
    """The real parts without threads, beside the model: every state there ever was."""

    def __init__(self, folder: str) -> None:
        self.options = options(folder)
        self.log = ObjectLog(self.options)
        self.open()
        self.states: dict[int, dict[bytes, KeyValue]] = {1: {}}

    def open(self) -> None:
        loaded = self.log.open()
        self.leases = LeaseTable()
        self.index = KeyIndex(loaded.current, loaded.revision, loaded.compacted)

    def batch(self, transactions: list[list[Op]]) -> None:
        """One commit of several operations."""
        draft = Draft(self.index, self.leases)
        for operations in transactions:
            self._run(draft, operations)
        commit = draft.finish()
        self.log.commit(commit)
        self.index.apply(commit.changes, draft.revision, commit.compacted)

    def _run(self, draft: Draft, operations: list[Op]) -> None:
        model = dict(self.states[draft.revision])
        revision, touched = draft.revision + 1, set()
        try:
            with draft.operation():
                for kind, key, value in operations:
                    if kind == "fail":
                        draft.put(key, value, lease=404)
                    elif key not in touched:
                        touched.add(key)
                        self._step(draft, model, revision, (kind, key, value))
        except LeaseNotFound:
            return
        if draft.revision == revision:
            self.states[revision] = model

    def _step(self, draft: Draft, model: dict[bytes, KeyValue], revision: int, operation: Op) -> None:
        kind, key, value = operation
        before = model.get(key)
        assert draft.get(key) == before
        if kind == "delete":
            draft.delete(key)
            model.pop(key, None)
        else:
            draft.put(key, value, 0)
            created, version = (before.create_revision, before.version) if before else (revision, 0)
            model[key] = KeyValue(key, value, created, revision, version + 1)
        assert draft.keys(b"a", FOREVER) == sorted(model)

    def compact(self, revision: int) -> None:
        draft = Draft(self.index, self.leases)
        compact(revision, draft)
        commit = draft.finish()
        self.log.commit(commit)
        self.index.apply([], self.index.revision, commit.compacted)
        while sweep(self.log):
            pass

    def check(self, start: bytes, end: bytes) -> None:
        newest = max(self.states)
        assert self.index.revision == newest
        assert [self.index.get(key) for key in self.index.keys(b"a", FOREVER)] == self.at(newest, b"a", FOREVER)
        for revision in range(max(self.index.compacted, 1), newest + 1):
            view = PastView(self.log.db, revision)
            assert [view.get(key) for key in view.keys(start, end)] == self.at(revision, start, end)

    def at(self, revision: int, start: bytes, end: bytes) -> list[KeyValue]:
        model = self.states[revision]
        wanted = [key for key in sorted(model) if (key == start if not end else key >= start)]
        return [model[key] for key in wanted if not end or end == FOREVER or key < end]

    def check_changes(self, limit: int) -> None:
        """Replaying the log page by page from any revision leads to the newest state, with the right past."""
        newest, first = max(self.states), max(self.index.compacted, 1) + 1
        state = dict(self.states[first - 1])
        while first <= newest:
            changes, complete = changes_since(self.log.db, b"a", FOREVER, first, newest, limit)
            for change in changes:
                assert change.previous == state.get(change.kv.key)
                state.pop(change.kv.key, None)
                if not change.deleted:
                    state[change.kv.key] = change.kv
            first = complete + 1
        assert state == self.states[newest]


@given(st.lists(st.lists(st.lists(OPS, max_size=4), max_size=4), max_size=6), RANGES, st.integers(1, 4), st.data())
def test_store_equals_model(
    batches: list[list[list[Op]]], span: tuple[bytes, bytes], limit: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as folder:
        world = World(folder)
        with closing(world.log):  # hypothesis may end an example where it draws
            for batch in batches:
                world.batch(batch)
            world.check(*span)
            world.check_changes(limit)
            if world.index.revision > 1:
                world.compact(data.draw(st.integers(1, world.index.revision)))
            if batches:
                world.batch(batches[0])
            world.check(*span)
            world.check_changes(limit)
            world.log.close()
            world.open()
            world.check(*span)


def test_compaction_any_history_keeps_newer_revisions() -> None:
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as folder:
        world = World(folder)
        for n in range(700):
            world.batch([[("put", b"a", b"%d" % n)], [("put", b"b", b"")], [("delete", b"b", b"")]])
        world.compact(world.index.revision)
        rows = world.log.db.execute("SELECT count(*) FROM log").fetchone()[0]
        assert rows == 2  # a, and the deletion at the compacted revision, where a watch may start
        world.check(b"a", FOREVER)
        world.log.close()


def test_retention_keeps_age_and_number() -> None:
    keep = options("/tmp")
    young = Retention(keep)
    assert young.target(0.0, 50_000) <= 0
    assert young.target(300.0, 60_000) <= 0
    assert young.target(601.0, 70_000) == 50_000
    assert young.target(602.0, 200_000) == 100_000
    quiet = Retention(keep)
    for minute in range(100):
        assert quiet.target(minute * 60.0, 5_000) <= 0


def test_leases_restart_with_full_ttl() -> None:
    """Whatever the wall clock says: it may have jumped."""
    leases = LeaseTable()
    records = [LeaseRecord(1, 100, 1050.0), LeaseRecord(2, 50, 0.0)]
    leases.load(records, [KeyValue(b"k", b"", 2, 2, 1, lease=1)], now=5.0)
    assert [leases.left(lease, 5.0) for lease in (1, 2)] == [100, 50]
    assert (leases.expired(54.0), leases.expired(56.0)) == ([], [2])
    assert leases.next_deadline() == pytest.approx(55.0)
    assert leases.keys(1) == {b"k"}


def test_lease_that_is_granted_anew_in_the_commit_of_its_revocation_has_its_own_time() -> None:
    """It had the deadline of the one before: one that had expired was revoked at once."""
    leases = LeaseTable()
    leases.load([LeaseRecord(1, 10, 0.0)], [], now=0.0)
    draft = Draft(KeyIndex(), leases)
    for operation in (partial(revoke, 1), partial(grant, LeaseRecord(1, 100, 0.0))):
        with draft.operation():
            operation(draft)
    leases.apply(draft.finish(), now=20.0)
    assert leases.expired(119.0) == []
    assert leases.expired(121.0) == [1]


async def test_lease_that_is_renewed_while_others_are_revoked_stays() -> None:
    """Its client had the answer that it is renewed, and its keys were deleted."""
    leases, revoked = LeaseTable(), list[int]()
    leases.load([LeaseRecord(number, 100, 0.0) for number in (1, 2, 3)], [], now=-1e6)

    async def submit(operation: Any) -> None:
        revoked.append(*operation.args)
        service._renew(2)

    core: Any = SimpleNamespace(leases=leases, writer=SimpleNamespace(submit=submit))
    service = LeaseService(core)
    await service._expire()
    assert revoked == [1, 3]


async def test_expired_lease_is_not_renewed_while_its_revocation_is_written() -> None:
    """Its client had the answer that it is renewed, and its keys were deleted."""
    leases, renewed = LeaseTable(), list[int]()
    leases.load([LeaseRecord(1, 100, 0.0)], [], now=-1e6)

    async def submit(operation: Any) -> None:
        renewed.append(service._renew(1))
        raise DiskFailed("full")

    core: Any = SimpleNamespace(leases=leases, writer=SimpleNamespace(submit=submit))
    service = LeaseService(core)
    with pytest.raises(DiskFailed):
        await service._revoke_expired(1)
    assert [*renewed, service._renew(1)] == [0, 100]


@pytest.mark.parametrize("end", [b"", FOREVER])
def test_large_batch_visits_only_the_keys_of_a_comparison(end: bytes) -> None:
    """A batch of 16,384 comparisons and puts took 6 s, one of the largest size four minutes."""
    draft = Draft(KeyIndex(), LeaseTable())
    began = time.process_time()
    for key in range(16_384, 0, -1):
        with draft.operation():
            draft.put(b"%05d" % key, b"", 0)
            assert len(draft.keys(b"%05d" % 16_380, end)) <= 5
    assert time.process_time() - began < 3.0


def test_large_batch_visits_only_the_keys_of_a_revoked_lease() -> None:
    """400 revocations beside 14,000 keys took 4 s."""
    leases = LeaseTable()
    leases.load([LeaseRecord(lease, 10, 0.0) for lease in range(1, 401)], [], 0.0)
    draft = Draft(KeyIndex(), leases)
    began = time.process_time()
    for key in range(14_000):
        with draft.operation():
            draft.put(b"%d" % key, b"", 7 if key == 9 else 0)
    for lease in range(1, 401):
        with draft.operation():
            draft.revoke(lease)
    assert draft.keys(b"9", b"") == []
    assert len(draft.changes) == 14_001
    assert time.process_time() - began < 1.5


@pytest.mark.parametrize(
    ("wish", "in_turn"),
    [({}, False), ({"keys_only": True}, False), ({"limit": 9}, True), ({"count_only": True}, True),
     ({"limit": 9, "sort_target": pb.RangeRequest.VALUE, "sort_order": pb.RangeRequest.DESCEND}, False)],
)  # fmt: skip
async def test_large_range_is_put_together_beside_the_loop(wish: dict[str, Any], in_turn: bool) -> None:
    """100,000 keys held the loop for half a second."""
    keys = [b"k%05d" % number for number in range(IN_TURN + 1)]
    index = KeyIndex([KeyValue(key, key[::-1], 2, 2, 1) for key in keys], 2)
    elsewhere = list[str]()

    async def read(work: Any) -> Any:
        elsewhere.append("read")
        index.apply([KeyChange(KeyValue(keys[0], b"", 0, 3, 0), None)], 3, 0)  # what is written meanwhile
        return work(None)

    core: Any = SimpleNamespace(index=index, read=read, check_revision=Mock(), header=pb.ResponseHeader)
    request = pb.RangeRequest(key=b"k", range_end=b"l", **wish)
    expected = evaluate_range(request, index)
    expected.header.SetInParent()
    assert await KvService(core, Mock()).range(request) == expected
    assert elsewhere == ([] if in_turn else ["read"])


def test_hash_of_history_is_of_one_state_beside_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that was swept between two of its reads was missing from it."""
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as folder:
        world = World(folder)
        with closing(world.log), closing(open_reader(world.options.file)) as reader:
            for n in range(4):
                world.batch([[("put", b"a", b"%d" % n)]])
            before = history_hash(reader, 5)

            def rows(db: sqlite3.Connection, compacted: int, revision: int) -> Iterator[StoredRow]:
                world.compact(5)
                return surviving_rows(db, compacted, revision)

            monkeypatch.setattr(history, "surviving_rows", rows)
            assert history_hash(reader, 5) == before
            monkeypatch.undo()
            assert (before[1], history_hash(reader, 5)[1]) == (0, 5)
