"""The store's TCP port and what it reports of itself, over restarts."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from actors.store import actor
from actors.store.actor import Store, StoreActor
from actors.store.model.errors import StoreUnusable
from actors.store.model.options import StoreOptions
from actors.store.rpc.kv import KvService
from protocols.actor import Context
from protocols.process.layout import layout
from protocols.wire import etcd_pb2 as pb
from tests.support.authority import Authority
from tests.support.ports import free_port
from tests.support.store_lab import short_directory


@pytest.fixture
def options() -> Iterator[StoreOptions]:
    with short_directory() as root:
        pki = root / "pki"
        Authority(pki).issue("server", "server")
        (root / "run").mkdir()
        yield StoreOptions(
            directory=root / "store",
            socket=root / "run" / "store.sock",
            address_file=root / "run" / "store.addr",
            ca=pki / "ca.crt",
            cert=pki / "server.crt",
            key=pki / "server.key",
        )


def spawn(coro: Any, name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coro, name=name)


async def port_of_a_start(options: StoreOptions, *, orderly: bool = True) -> int:
    store = Store(options)
    tasks: list[asyncio.Task[None]] = []
    try:
        await store.start(lambda coro, name: tasks.append(spawn(coro, name)))
        address = options.address_file.read_text().strip()
        assert address == store.address
    finally:
        await store.stop()
        for task in tasks:
            task.cancel()
    if not orderly:
        options.address_file.write_text(address)
    return int(address.rpartition(":")[2])


async def test_store_port_zero_is_the_same_after_a_restart(options: StoreOptions) -> None:
    first = await port_of_a_start(options)
    assert [await port_of_a_start(options, orderly=False), await port_of_a_start(options)] == [first, first]


async def test_store_port_zero_with_the_last_port_in_use_selects_another(options: StoreOptions) -> None:
    first = await port_of_a_start(options)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", first))
        other.listen()
        second = await port_of_a_start(options)
    assert second != first
    assert await port_of_a_start(options) == second


@pytest.mark.parametrize("text", ["", "no port", "70000", "-1", "0"])
async def test_store_port_zero_with_a_damaged_file_selects_any(options: StoreOptions, text: str) -> None:
    options.directory.mkdir()
    options.port_file.write_text(text)
    assert await port_of_a_start(options) > 0


async def test_store_port_given_and_in_use_is_an_error(options: StoreOptions) -> None:
    port = free_port()
    wanted = msgspec.structs.replace(options, port=port)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(StoreUnusable, match=f"cannot listen on 127.0.0.1:{port}"):
            await port_of_a_start(wanted)


class RecordingContext:
    """As much of a Context as the store's actor uses."""

    def __init__(self, root: Path) -> None:
        self.layout = layout(str(root))
        self.settings = cast(Any, type("Settings", (), {"store_port": 0, "store_sync": "full", "store_quota_bytes": 0}))
        self.registry = CollectorRegistry()
        self.notes: list[str] = []
        self._noted = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    def ready(self, note: str) -> None:
        self.notes.append(note)
        self._noted.set()

    note = ready

    async def told(self, beginning: str) -> None:
        while not self.notes[-1].startswith(beginning):
            self._noted.clear()
            await self._noted.wait()

    def spawn(self, coro: Any, name: str) -> None:
        self.tasks.append(spawn(coro, name))


async def test_store_note_follows_the_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "NOTE_S", 0.02)
    with short_directory() as root:
        (root / "run").mkdir()
        context = RecordingContext(root)
        made = StoreActor(cast(Context, context))
        await made.start()
        assert context.notes[0].startswith("revision 1, 0 keys")
        assert made._store is not None
        service = KvService(made._store.core, made._store._compactor)
        await service.put(pb.PutRequest(key=b"/registry/a", value=b"x"))
        await asyncio.wait_for(context.told("revision 2, 1 keys"), 60)
        await made.stop()
        for task in context.tasks:
            task.cancel()
