"""Objects of 1 MB, more of them than an answer of the store may hold: the plane starts on them, lists and watches."""

import asyncio
import json

import msgspec
import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.engine import ETCD, OURS, engines
from tests.support.servers import X

SIZE = 1_000_000
COUNTS = {OURS: 100, ETCD: 40}
"""An answer of etcd may have 16 MiB; tests/unit/etcd/test_etcd_paging.py cuts lists by bytes whatever the limit is."""
PAGE, TOGETHER = 25, 20
OWN_MB = 160
"""Of a process without objects, with room."""


@pytest.mark.parametrize("engine", engines())
async def test_plane_starts_on_many_large_objects_within_bounded_memory(engine: str) -> None:
    count = COUNTS[engine]
    with running_plane(store=engine) as plane:
        for name in ("watchcache", "apiserver-0"):
            plane.kill(name)
        await fill(plane, count)
        for name in ("watchcache", "apiserver-0"):
            plane.spawn(name)
        plane.wait_ready()
        await read(plane, count)
        for name in ("watchcache", "apiserver-0"):
            peak = peak_mb(plane.processes[name].pid)
            assert peak < 1.5 * count * SIZE / 1e6 + OWN_MB, f"{name} took {peak} MB"


async def fill(plane: Plane, count: int) -> None:
    store = EtcdClient(EtcdOptions(endpoints=plane.settings.store_endpoints, timeout=60.0))
    await store.start()
    for start in range(0, count, TOGETHER):
        await asyncio.gather(*(put(store, number) for number in range(start, min(start + TOGETHER, count))))
    await store.close()


async def put(store: EtcdClient, number: int) -> None:
    name = f"big-{number:04}"
    metadata = {"name": name, "namespace": "default", "uid": name}
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"x": "y" * SIZE}}
    await store.put(f"/registry/configmaps/default/{name}".encode(), msgspec.json.encode(body))


async def read(plane: Plane, count: int) -> None:
    async with plane.client() as http:
        found, resume = 0, ""
        while found == 0 or resume:
            query = {"limit": str(PAGE)} | ({"continue": resume} if resume else {})
            async with http.get(X, params=query, headers={"Accept-Encoding": "identity"}) as answer:
                page = json.loads(await answer.read())
            assert answer.status == 200, page
            found, resume = found + len(page["items"]), page["metadata"].get("continue", "")
        assert found == count
        query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with http.get(X, params={**query, "allowWatchBookmarks": "true"}) as answer:
            told = b""
            events = 0
            async for chunk in answer.content.iter_chunked(1 << 20):
                events += (told[-9:] + chunk).count(b'"ADDED"') - told[-9:].count(b'"ADDED"')
                told = told[-100:] + chunk
                if b"initial-events-end" in told:
                    break
        assert events == count


def peak_mb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))
