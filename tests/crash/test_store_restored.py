"""The store is restored from a backup under open watches and informers: all forget what was lost and agree with it.

Standing in for the supervisor, a keeper starts the watch cache anew when it ends.
"""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import aiohttp
import msgspec
import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from protocols.kinds.table import ALL
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.engine import ETCD, OURS
from tests.support.servers import Session, X

BEFORE, LOST, GROWN = 20, 300, 400
WITHIN_S = 30.0
"""Generous; measured: 0.4 s on a whole plane, up to 1.9 s here."""
PREFIX = b"/registry/configmaps/default/"
CONFIGMAPS = next(resource for resource in ALL if resource.plural == "configmaps")
Contents = dict[str, tuple[int, str]]
"""By name: revision and value."""


class Backup:
    """A copy of the store's data. `restore` runs while the store is down."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._copy = plane.root / "backup"
        self._etcd = not plane.settings.runs_store
        self._file = plane.root / "store" / "objects.sqlite"

    def take(self) -> None:
        if self._etcd:
            self._ctl("--endpoints", self._plane.settings.store_endpoints[0], "snapshot", "save", str(self._copy))
            return
        with closing(sqlite3.connect(self._file)) as live, closing(sqlite3.connect(self._copy)) as copy:
            live.backup(copy)

    def restore(self) -> None:
        if self._etcd:
            data = self._plane.root / "etcd"
            shutil.rmtree(data)
            assert self._plane._etcd is not None
            flags = [flag for flag in self._plane._etcd.command if "initial" in flag or "data-dir" in flag]
            self._ctl("snapshot", "restore", str(self._copy), *flags)
            return
        for left in self._file.parent.glob("objects.sqlite*"):
            left.unlink()
        shutil.copy(self._copy, self._file)

    def _ctl(self, *arguments: str) -> None:
        if shutil.which("etcdctl") is None:
            pytest.skip("etcdctl is not installed (Debian: apt-get install etcd-client)")
        environment = {**os.environ, "ETCDCTL_API": "3"}
        subprocess.run(["etcdctl", *arguments], check=True, env=environment, capture_output=True, timeout=60)


class World:
    def __init__(self, plane: Plane, http: aiohttp.ClientSession, store: EtcdClient, informer: Informer) -> None:
        self.plane, self.http, self.store, self.informer = plane, http, store, informer
        self.api = Session(http)
        self.backup = Backup(plane)
        self.restored = 0.0
        """When the store was restored and started."""

    async def stored(self) -> Contents:
        """What the store itself holds."""
        found = (await self.store.range(PREFIX)).kvs
        return {kv.key.removeprefix(PREFIX).decode(): (kv.mod_revision, _value(kv.value)) for kv in found}

    async def listed(self, **query: str) -> Contents:
        """What the API lists; empty while it cannot."""
        with suppress(aiohttp.ClientError, TimeoutError, KeyError):
            async with self.http.get(X, params=query) as answer:
                return _contents((await answer.json())["items"])
        return {}

    async def restore(self) -> None:
        self.plane.kill("store")
        await asyncio.to_thread(self.backup.restore)
        self.plane.spawn("store")
        self.restored = time.monotonic()

    async def agree(self) -> None:
        """Wait until lists of any freshness and the informer show what is stored."""
        began = time.monotonic()
        while True:
            stored = await self.stored()
            seen = [
                await self.listed(),
                await self.listed(resourceVersion="0"),
                _contents(self.informer.items.values()),
            ]
            if all(each == stored for each in seen):
                if self.restored:
                    print(f"all agree with the store {time.monotonic() - self.restored:.2f} s after it was started")
                return
            late = [sorted(set(each.items()) ^ set(stored.items()))[:3] for each in seen]
            assert time.monotonic() - began < WITHIN_S, f"they differ: {late}\n{self.plane.logs()}"
            await asyncio.sleep(0.05)

    async def keep(self) -> None:
        """Start the watch cache anew when it ended."""
        while True:
            if self.plane.processes["watchcache"].poll() is not None:
                self.plane.spawn("watchcache")
            await asyncio.sleep(0.1)


class Quiet:
    """A handler that does nothing: the informer's own items are looked at."""

    def on_add(self, obj: Object) -> None:
        pass

    def on_update(self, old: Object, new: Object) -> None:
        pass

    def on_delete(self, obj: Object) -> None:
        pass


@asynccontextmanager
async def world(plane: Plane) -> AsyncIterator[World]:
    pki = plane.settings.layout.pki
    options = ClientOptions(server=plane.url, ca=pki / "ca.crt", cert=pki / "admin.crt", key=pki / "admin.key")
    store = EtcdClient(EtcdOptions(endpoints=plane.settings.store_endpoints, timeout=20.0))
    await store.start()
    client = ApiClient(options)
    await client.start()
    informer = Informer(client, CONFIGMAPS, InformerOptions(namespace="default"), Quiet())
    async with plane.client() as http:
        made = World(plane, http, store, informer)
        tasks = [asyncio.create_task(informer.run()), asyncio.create_task(made.keep())]
        try:
            await informer.wait_synced(30)
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()
            await store.close()


async def lose(made: World) -> int:
    """Write a backup's worth, take it, write what will be lost; the last revision."""
    for number in range(BEFORE):
        await made.api.create(X, f"kept-{number}")
    await asyncio.to_thread(made.backup.take)
    last = 0
    for number in range(LOST):
        kept = f"kept-{number % BEFORE}"
        last = await (
            made.api.touch(X, kept, f"lost-{number}") if number % 2 else made.api.create(X, f"ghost-{number}")
        )
    await made.agree()
    return last


async def test_store_restored_to_a_lower_revision_makes_all_start_over() -> None:
    with running_plane(store=OURS) as plane:
        async with world(plane) as made, made.api.watch(await lose(made)) as watch:
            last = await made.api.version()
            await made.restore()
            assert (await watch.next(WITHIN_S))[:2] == ("ERROR", 410)
            assert await watch.next() == ("", 0, ""), "the watch ends behind the error"
            new = await made.api.create(X, "after")
            assert new < last
            await made.agree()
            async with made.api.watch(new) as again:
                changed = await made.api.touch(X, "after", "1")
                assert await again.next() == ("MODIFIED", changed, "after")
            async with made.api.watch(last) as lost:  # a client that was away meanwhile
                assert (await lost.next(WITHIN_S))[:2] == ("ERROR", 410)


async def test_store_restored_and_grown_past_the_old_revision_is_recognised() -> None:
    with running_plane(store=ETCD) as plane:
        async with world(plane) as made, made.api.watch(await lose(made)) as watch:
            last = await made.api.version()
            frozen = plane.processes["watchcache"]
            frozen.send_signal(signal.SIGSTOP)
            await made.restore()
            grown = 0
            for number in range(GROWN):
                body = _object(f"kept-{number % BEFORE}", f"other-{number}")
                grown = await made.store.put(PREFIX + b"kept-%d" % (number % BEFORE), body)
            assert grown > last
            frozen.send_signal(signal.SIGCONT)
            kinds = []
            while (event := await watch.next(WITHIN_S))[0]:
                kinds.append(event[:2])
            assert kinds[-1] == ("ERROR", 410)
            await made.agree()


def _object(name: str, touched: str) -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {"touched": touched}}
    return msgspec.json.encode({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})


def _value(raw: bytes) -> str:
    return str(msgspec.json.decode(raw)["metadata"].get("annotations", {}).get("touched", ""))


def _contents(objects: Iterable[dict[str, Any]]) -> Contents:
    found: Contents = {}
    for obj in objects:
        metadata = obj["metadata"]
        found[metadata["name"]] = int(metadata["resourceVersion"]), metadata.get("annotations", {}).get("touched", "")
    return found
