"""Files spoiled in every way: one line that names the file and the mend, and what is there is left as it is."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.store.actor import Store
from actors.store.file.file_check import wal_of
from actors.store.model.errors import StoreCorrupt, StoreUnusable
from actors.store.model.options import StoreOptions
from protocols.wire import etcd_pb2 as pb
from tests.integration.test_store_bad_input import options
from tests.support.authority import Authority
from tests.support.small_disk import small_disk
from tests.support.store_lab import Api, lab, listened_at, short_directory, until

WRITES = 120
"""Fewer than a checkpoint takes: so all of them are in the log only."""
Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def killed() -> Iterator[Path]:
    """The directory of a store that was killed: a file and a log with acknowledged writes."""

    async def fill(target: str) -> None:
        api = Api(target)
        for number in range(WRITES):
            await api.put(pb.PutRequest(key=b"k%d" % (number % 50), value=b"v" * 1000))
        await api.close()

    with lab("store") as made:
        until("the store listens", lambda: listened_at(made.socket))
        asyncio.run(fill(made.target))
        made.kill("store")
        yield made.layout.store


def sql(script: str) -> Spoil:
    def spoil(file: Path) -> None:
        db = sqlite3.connect(file)
        db.executescript(script)
        db.close()

    return spoil


def flip(file: Path, part: float) -> None:
    data = bytearray(file.read_bytes())
    data[int(len(data) * part)] ^= 0xFF
    file.write_bytes(data)


def only_the_log(file: Path) -> None:
    file.unlink()


DAMAGED: dict[str, tuple[Spoil, str]] = {
    "empty": (lambda file: os.truncate(file, 0), "objects.sqlite is damaged (it is empty)"),
    "gone": (only_the_log, "objects.sqlite is damaged (it is missing, and objects.sqlite-wal is there)"),
    "log header": (lambda file: flip(wal_of(file), 0.0), "objects.sqlite-wal is damaged (its header cannot be read)"),
    "log salt": (lambda file: os.truncate(wal_of(file), 40) or flip(wal_of(file), 0.5), "its header cannot be read"),  # type: ignore[func-returns-value]  # two steps
    "log middle": (lambda file: flip(wal_of(file), 0.5), "objects.sqlite-wal is damaged (what comes after frame"),
    "no table": (sql("DROP TABLE log"), "its tables are not those of format 2"),
    "no index": (sql("DROP INDEX log_key"), "its tables are not those of format 2"),
    "no column": (sql("ALTER TABLE log DROP COLUMN lease"), "its tables are not those of format 2"),
    "no ids": (sql("DELETE FROM meta"), "its tables are not those of format 2"),
    "older": (sql("PRAGMA user_version = 0"), "its tables are not those of format 2"),
    "newer": (sql("PRAGMA user_version = 9"), "has format 9, this nodeplane reads up to 2: use a newer one"),
    "another's": (sql("PRAGMA application_id = 5"), "is not a store of nodeplane; move it away"),
}


async def start(made: StoreOptions) -> tuple[int, int]:
    """Keys and revision of what opens."""
    store = Store(made)
    found = len(store.core.index), store.core.index.revision
    await store.core.close()
    return found


@pytest.mark.parametrize("name", DAMAGED)
async def test_store_damaged_is_one_line_error(killed: Path, name: str) -> None:
    spoil, told = DAMAGED[name]
    with short_directory() as root:
        made = options(root, sync="full")
        shutil.copytree(killed, made.directory)
        spoil(made.file)
        before = {path.name: path.read_bytes() for path in made.directory.iterdir() if "-shm" not in path.name}
        with pytest.raises(StoreCorrupt) as caught:
            await start(made)
        assert told in str(caught.value)
        assert str(made.directory) in str(caught.value)
        assert "\n" not in str(caught.value)
        if not name.startswith(("no ", "older", "newer", "another's")):
            assert {path.name: path.read_bytes() for path in made.directory.iterdir() if path.name in before} == before


async def test_store_torn_log_end_opens(killed: Path) -> None:
    """A power cut in the middle of a write that was not acknowledged."""
    with short_directory() as root:
        made = options(root, sync="full")
        shutil.copytree(killed, made.directory)
        os.truncate(wal_of(made.file), wal_of(made.file).stat().st_size - 2000)
        assert await start(made) == (50, WRITES)
        assert await start(made) == (50, WRITES)


async def test_store_unsynced_log_hole_opens(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`store_sync: normal` gives the last moments before a power cut away, and the log says so."""
    with short_directory() as root:
        made = options(root, sync="normal")
        shutil.copytree(killed, made.directory)
        flip(wal_of(made.file), 0.9)
        assert 1 < (await start(made))[1] < WRITES + 1
        assert "acknowledged writes lost, as --store-sync normal allows" in caplog.text


async def test_store_half_created_begins_anew() -> None:
    with short_directory() as root:
        made = options(root)
        made.directory.mkdir()
        made.file.with_suffix(".new").write_bytes(b"half")
        assert await start(made) == (0, 1)
        assert [path.name for path in made.directory.glob("*.new")] == []


@pytest.mark.root
async def test_store_read_only_disk_is_reported(killed: Path) -> None:
    with short_directory() as root:
        made = options(root)
        with small_disk(made.directory, 8):
            shutil.copytree(killed, made.directory, dirs_exist_ok=True)
            assert os.system(f"mount -o remount,ro {made.directory}") == 0  # noqa: ASYNC221 # nothing else runs
            with pytest.raises(StoreUnusable, match="Read-only file system; make it writable"):
                await start(made)


TLS: dict[str, tuple[Callable[[Path], object], str]] = {
    "certificate": (lambda pki: (pki / "store.crt").write_text("junk"), "store.crt cannot be used with its key .* PEM"),
    "key": (lambda pki: (pki / "store.key").write_text(""), "store.crt cannot be used with its key .* PEM"),
    "CA": (lambda pki: (pki / "ca.crt").write_text("junk"), "CA certificate .*ca.crt cannot be used"),
    "pair": (lambda pki: Authority(pki).issue("other") or (pki / "other.key").replace(pki / "store.key"), "mismatch"),  # type: ignore[func-returns-value]  # two steps
}


@pytest.mark.parametrize("name", TLS)
async def test_store_bad_certificate_is_named(name: str) -> None:
    spoil, told = TLS[name]

    with short_directory() as root:
        Authority(root / "pki").issue("store")
        spoil(root / "pki")
        made = options(root)
        store = Store(made)
        tasks: list[asyncio.Task[None]] = []
        with pytest.raises(StoreUnusable, match=told) as caught:
            await store.start(lambda work, _: tasks.append(asyncio.create_task(work)))
        assert "\n" not in str(caught.value)
        assert "nodeplane up" in str(caught.value)
        await store.stop()
        await asyncio.gather(*tasks)


@pytest.mark.root
async def test_store_real_disk_full_recovers_without_restart() -> None:
    """A real one. Reads and a watch go on; what was acknowledged is there; compaction goes on by itself later."""

    async def until_full(api: Api) -> int:
        number = 0
        while True:
            code = await refusal(api, number)
            if code:
                assert code == ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded")
                return number
            number += 1

    async def refusal(api: Api, number: int) -> tuple[str, str] | None:
        call = api.put(pb.PutRequest(key=b"f/%06d" % number, value=bytes(20_000)))
        try:
            return await api.fails(call)
        except AssertionError:
            return None

    with lab() as made, small_disk(made.layout.store, 6) as disk:
        ballast = made.layout.store / "ballast"
        ballast.write_bytes(bytes(3 << 20))
        made.start("store")
        until("the store listens", lambda: listened_at(made.socket))
        target = made.target
        free = ballast.unlink
        api = Api(target)
        kept = await until_full(api)
        found = await api.range(pb.RangeRequest(key=b"f/", range_end=b"f0", count_only=True))
        assert found.count == kept
        free()
        answer = await api.put(pb.PutRequest(key=b"f/after"))
        assert answer.header.revision == found.header.revision + 1
        await api.close()
        made.restart("store")
        until("it is back", lambda: listened_at(made.socket))
        await until_written(made.target)
        made.stop()
        disk.free()


async def until_written(target: str) -> None:
    api = Api(target)
    assert (await api.range(pb.RangeRequest(key=b"f/after"))).count == 1
    await api.close()
