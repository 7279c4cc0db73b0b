"""A client that leaves an idle watch is noticed without an event; the others are served on."""

import asyncio

from tests.support.apiserver_plane import Plane, running_plane

PATH = "/api/v1/namespaces/default/configmaps"
OPEN = 'apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps"'


async def open_watches(plane: Plane) -> float:
    text = await plane.metrics("apiserver-0")
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(OPEN))


async def until_open(plane: Plane, count: int) -> None:
    for _ in range(100):
        if await open_watches(plane) == count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"there are still {await open_watches(plane)} watches, not {count}")


def test_a_client_that_leaves_an_idle_watch_is_noticed() -> None:
    async def story() -> None:
        async with plane.client() as session:
            query = {"watch": "true", "sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
            staying = await session.get(PATH, params=query)
            leaving = await session.get(PATH, params=query)
            await until_open(plane, 2)
            leaving.close()
            await until_open(plane, 1)
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
            async with session.post(PATH, json=body) as answer:
                assert answer.status == 201
            assert b'"ADDED"' in await asyncio.wait_for(staying.content.readline(), 5)
            staying.close()

    with running_plane() as plane:
        asyncio.run(story())
