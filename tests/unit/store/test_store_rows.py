"""Flipped bits in the store's file: nothing that was stored changes silently."""

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from actors.store.engine.compactor import Compactor
from actors.store.engine.core import Core
from actors.store.file import file_check, rows, upkeep
from actors.store.file.history import PastView, open_reader
from actors.store.file.object_log import ObjectLog
from actors.store.file.rows import DAMAGED
from actors.store.model.errors import DiskFailed, HistoryDamaged, StoreCorrupt
from actors.store.model.options import StoreOptions
from actors.store.model.types import Commit, KeyChange
from protocols.etcd.types import KeyValue
from protocols.process.tasks import Threads, cancel
from tests.support.waiting import until_async

FLIPS = 30
Content = dict[bytes, KeyValue]


def options(path: Path) -> StoreOptions:
    return StoreOptions(directory=path, socket=path, address_file=path, ca=path, cert=path, key=path, sync="normal")


def fill(path: Path, writes: int = 200) -> None:
    log = ObjectLog(options(path))
    log.open()
    versions: dict[bytes, int] = {}
    for revision in range(2, 2 + writes):
        key = b"/registry/configmaps/default/%03d" % (revision * 7 % 60)
        versions[key] = versions.get(key, 0) + 1
        value = b'{"n": %d, "pad": "%s"}' % (revision, b"v" * (revision * 97 % 6000))
        kv = KeyValue(key, value, revision, revision, versions[key])
        log.commit(Commit([KeyChange(kv, None)], [], [], 0))
    upkeep.checkpoint(log, "TRUNCATE")
    log.close()


def content(path: Path) -> Content:
    log = ObjectLog(options(path))
    try:
        return {kv.key: kv for kv in log.open().current}
    finally:
        log.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled")
    fill(path)
    return path


def flipped(filled: Path, path: Path, place: int, bit: int = 0) -> Path:
    """Return a copy of the store with one bit flipped."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(filled, path)
    data = bytearray(options(path).file.read_bytes())
    data[place] ^= 1 << bit
    options(path).file.write_bytes(data)
    return path


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bit_is_refused_or_costs_only_the_object_that_it_names(filled: Path, tmp_path: Path, seed: int) -> None:
    good, dice = content(filled), random.Random(seed)
    size, refused = options(filled).file.stat().st_size, list[str]()
    for _ in range(FLIPS):
        place, bit = dice.randrange(size), dice.randrange(8)
        try:
            found = content(flipped(filled, tmp_path / "w", place, bit))
        except StoreCorrupt as error:
            refused.append(str(error))
            continue
        assert found.keys() == good.keys(), (place, bit)
        changed = [kv for key, kv in found.items() if kv != good[key]]
        assert all(kv.value == DAMAGED for kv in changed), (place, bit)
    assert all("objects.sqlite" in text for text in refused)


def test_damaged_row_is_named_once_and_the_rest_is_readable(
    filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_logged", set())
    good = content(filled)
    key, kv = max(good.items(), key=lambda item: len(item[1].value))
    place = options(filled).file.read_bytes().index(kv.value[:40]) + 6
    path = flipped(filled, tmp_path / "w", place)
    found = content(path)
    assert found[key].value == DAMAGED
    assert {other: kv for other, kv in found.items() if other != key} == {o: kv for o, kv in good.items() if o != key}
    content(path)
    named = [message for message in caplog.messages if key.decode() in message]
    assert len(named) == 1
    assert f"revision={kv.mod_revision}" in named[0]
    with closing(open_reader(options(path).file)) as reader:
        past = PastView(reader, kv.mod_revision)
        assert key in past.keys(key, b"")  # a method of the view
        past_kv = past.get(key)
    assert past_kv is not None
    assert past_kv.value == DAMAGED


def test_index_that_differs_from_its_rows_is_refused(filled: Path, tmp_path: Path) -> None:
    """The index has another byte in a key than the row."""
    file = options(filled).file.read_bytes()
    key = b"/registry/configmaps/default/030"
    places = [at for at in range(len(file)) if file.startswith(key, at)]
    outcomes = set()
    for place in places:
        try:
            found = content(flipped(filled, tmp_path / "w", place + len(key) - 1, 6))
        except StoreCorrupt as error:
            outcomes.add("its index does not match" in str(error))
        else:
            assert found == content(filled), "a row of the past"
    assert True in outcomes


def test_file_of_format_1_is_taken_over(filled: Path, tmp_path: Path) -> None:
    good, old = content(filled), tmp_path / "old"
    shutil.copytree(filled, old)
    with closing(sqlite3.connect(options(old).file)) as db, db:
        db.execute("ALTER TABLE log DROP COLUMN sum")
        db.execute("PRAGMA user_version = 1")
    assert content(old) == good
    log = ObjectLog(options(old))
    log.open()
    log.commit(Commit([KeyChange(KeyValue(b"new", b"1", 900, 900, 1), None)], [], [], 0))
    sums = dict(log.db.execute("SELECT sum IS NULL, count(*) FROM log GROUP BY 1").fetchall())
    assert sums == {0: 1, 1: 200}
    assert log.db.execute("PRAGMA user_version").fetchone()[0] == file_check.FORMAT
    log.close()
    assert content(old).keys() == {*good, b"new"}


async def test_page_that_cannot_be_read_is_data_loss_of_that_read(filled: Path) -> None:
    def torn(db: sqlite3.Connection) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    core = object.__new__(Core)
    core._reading = Threads("test")
    with closing(core._reading), closing(sqlite3.connect(":memory:", check_same_thread=False)) as core._reader:
        with pytest.raises(HistoryDamaged, match=r"etcdserver: corrupt cluster: .*malformed") as caught:
            await core.read(torn)
        assert caught.value.grpc == "DATA_LOSS"
        assert await core.read(lambda db: db.execute("SELECT 1").fetchone()) == (1,)


async def test_sweep_of_a_page_that_cannot_be_read_is_reported_once_and_ends_nothing(
    filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The store ended, and did not start again."""
    shutil.copytree(filled, tmp_path / "w")
    core = Core(options(tmp_path / "w"))
    compactor = Compactor(core)
    core.log.commit(Commit([], [], [], 150))
    core.log.db.execute("PRAGMA shrink_memory")
    data = options(tmp_path / "w").file.read_bytes()
    options(tmp_path / "w").file.write_bytes(data[:8192] + bytes(len(data) - 8192))
    task = asyncio.create_task(compactor.run())
    await until_async("the failure is logged", lambda: "compaction failed" in caplog.text)
    compactor.wake()
    await core.writer.in_thread(lambda log: None)
    assert not task.done()
    await cancel(task)
    await core.close()
    assert caplog.text.count("compaction failed, history grows error=etcdserver: the store's file cannot") == 1


async def test_size_that_cannot_be_read_ends_no_write(tmp_path: Path) -> None:
    """The store ended where its quota was due to be measured."""
    unreadable = Mock(db=Mock(execute=Mock(side_effect=sqlite3.OperationalError("disk I/O error"))))
    core = Core(msgspec.structs.replace(options(tmp_path), quota_bytes=1 << 30))
    with pytest.raises(DiskFailed, match="disk I/O error"):
        upkeep.file_size(unreadable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "file_size", Mock(side_effect=DiskFailed("disk I/O error")))
        assert await core.writer.submit(lambda draft: draft.put(b"a", b"1", 0)) is not None
    await core.close()
