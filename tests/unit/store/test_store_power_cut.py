"""What a power cut may leave of a young store's files: it opens, unless acknowledged writes are gone."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.store.file import upkeep
from actors.store.file.file_check import FRAME, HEADER, _frames_read, create, wal_of
from actors.store.file.object_log import ObjectLog
from actors.store.model.errors import StoreCorrupt
from actors.store.model.options import StoreOptions
from actors.store.model.types import Commit, KeyChange
from protocols.etcd.types import KeyValue


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ObjectLog]:
    made = ObjectLog(options(tmp_path))
    made.open()
    yield made
    made.close()


def options(path: Path) -> StoreOptions:
    return StoreOptions(directory=path, socket=path, address_file=path, ca=path, cert=path, key=path)


def put(log: ObjectLog, revision: int, size: int = 9000) -> None:
    log.commit(Commit([KeyChange(KeyValue(b"/a", b"v" * size, 2, revision, 1), None)], [], [], 0))


def without_end(path: Path, target: Path) -> StoreOptions:
    """Copy a store that died while the last page of its last transaction was written."""
    made = options(target)
    target.mkdir()
    shutil.copy(options(path).file, made.file)
    content = bytearray(wal_of(options(path).file).read_bytes())
    content[HEADER.size + _frames_read(options(path).file) * (FRAME.size + 4096) - 1] ^= 1
    wal_of(made.file).write_bytes(content)
    return made


def without_header(path: Path, target: Path) -> StoreOptions:
    """Copy a store whose first page of the WAL is not on disk, though pages after it are."""
    made = options(target)
    target.mkdir()
    shutil.copy(options(path).file, made.file)
    wal_of(made.file).write_bytes(bytes(4096) + wal_of(options(path).file).read_bytes()[4096:])
    return made


def test_first_transaction_without_wal_header_opens(log: ObjectLog, tmp_path: Path) -> None:
    put(log, 2)
    upkeep.checkpoint(log, "TRUNCATE")
    put(log, 3)
    cut = ObjectLog(without_header(tmp_path, tmp_path / "cut"))
    assert cut.open().revision == 2
    put(cut, 3)
    cut.close()


def test_acknowledged_transaction_without_wal_header_is_damage(log: ObjectLog, tmp_path: Path) -> None:
    put(log, 2)
    put(log, 3)
    with pytest.raises(StoreCorrupt, match="its header cannot be read"):
        ObjectLog(without_header(tmp_path, tmp_path / "cut")).open()


def test_unfinished_transactions_of_two_crashes_are_no_damage(log: ObjectLog, tmp_path: Path) -> None:
    """The second is shorter: behind it the end of the first is still in the WAL unless it is cut off."""
    put(log, 2)
    put(log, 3)
    once = ObjectLog(without_end(tmp_path, tmp_path / "once"))
    assert once.open().revision == 2
    put(once, 3, size=1)
    twice = ObjectLog(without_end(tmp_path / "once", tmp_path / "twice"))
    assert twice.open().revision == 2
    put(twice, 3)
    once.close()
    twice.close()


def test_new_file_never_has_a_rollback_journal(tmp_path: Path) -> None:
    path = options(tmp_path).file
    create(path)
    assert path.read_bytes()[18:20] == b"\2\2", "WAL mode, as SQLite's file format says it"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
