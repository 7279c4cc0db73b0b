"""Watch cache and API server die together while others write fast: idle clients resume where they were."""

import asyncio

from protocols.etcd import EtcdClient, EtcdOptions
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.engine import OURS
from tests.support.resuming import CONFIGMAPS, Crowd

CLIENTS, AT_ONCE = 10, 64
WRITES = 21_000
"""More than a restarted watch cache reads back, and that in less than a minute, the time between idle bookmarks."""


async def write(plane: Plane, count: int) -> None:
    """To the store itself, of another resource."""
    store = EtcdClient(EtcdOptions(endpoints=plane.settings.store_endpoints, timeout=60.0))
    await store.start()
    gate = asyncio.Semaphore(AT_ONCE)

    async def put(number: int) -> None:
        name = f"s-{number % 50}"
        body = '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"%s","namespace":"default","uid":"%d"}}'
        async with gate:
            await store.put(f"/registry/secrets/default/{name}".encode(), (body % (name, number)).encode())

    await asyncio.gather(*(put(number) for number in range(count)))
    await store.close()


async def create(plane: Plane, name: str) -> int:
    async with plane.client() as http:
        body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}}
        async with http.post(CONFIGMAPS, json=body) as answer:
            assert answer.status == 201, await answer.text()
            return int((await answer.json())["metadata"]["resourceVersion"])


async def test_idle_watches_resume_after_a_double_kill_under_load() -> None:
    """On our store, which retains little more than what is read back; etcd retains all of it."""
    with running_plane(store=OURS) as plane:
        async with Crowd([plane], CLIENTS) as crowd:
            await write(plane, WRITES)
            for name in ("watchcache", "apiserver-0"):
                await asyncio.to_thread(plane.kill, name)
            for name in ("watchcache", "apiserver-0"):
                plane.spawn(name)
            await asyncio.to_thread(plane.wait_ready)
            last = await create(plane, "after")
            await crowd.caught_up(last)
            crowd.check([last])
