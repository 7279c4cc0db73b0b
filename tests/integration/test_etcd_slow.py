"""An etcd that answers late: within the API server's deadline requests are slow, beyond it they end with an error, and
nothing acknowledged is lost."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.integration.etcd_fixture import etcd_binary
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.etcd_cluster import cluster
from tests.support.resuming import CONFIGMAPS
from tests.support.slow_link import SlowLink, slow_link
from tests.support.waiting import until_async

LATE_S, TOO_LATE_S = 5.0, 40.0
DEADLINE_S = 10.0
"""The API server's, of a call of its store (actors/apiserver/storage/storage.py)."""
MARGIN_S = 15.0
"""For a loaded machine."""


@pytest.fixture(scope="module")
def link() -> Iterator[SlowLink]:
    """The way to an etcd."""
    with cluster(etcd_binary()) as etcd, slow_link(int(etcd.endpoints[0].rpartition(":")[2])) as made:
        yield made


@pytest.fixture(scope="module")
def plane(link: SlowLink) -> Iterator[Plane]:
    """An API server that reaches its etcd by the link."""
    with running_plane(store_endpoints=(f"127.0.0.1:{link.port}",), store_embedded=False) as started:
        yield started


class Client:
    """Creates ConfigMaps; `answers` are the status codes by name, with the seconds that each took."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self.answers: dict[str, tuple[int, float]] = {}

    async def create(self, *names: str) -> None:
        async with self._plane.client() as session:

            async def one(name: str) -> None:
                began = time.monotonic()
                async with session.post(CONFIGMAPS, json={"metadata": {"name": name}}) as answer:
                    await answer.read()
                    self.answers[name] = answer.status, time.monotonic() - began

            await asyncio.gather(*map(one, names))

    def codes(self, *names: str) -> list[int]:
        return [self.answers[name][0] for name in names]

    async def stored(self, query: str = "") -> tuple[int, set[str]]:
        async with self._plane.client() as session, session.get(CONFIGMAPS + query) as answer:
            body = await answer.json()
            return answer.status, {item["metadata"]["name"] for item in body.get("items") or ()}


async def test_etcd_that_answers_late_loses_nothing(plane: Plane, link: SlowLink) -> None:
    client = Client(plane)
    await client.create("before")
    link.delay = LATE_S
    try:
        await client.create("late-a", "late-b", "late-c")
        assert client.codes("late-a", "late-b", "late-c") == [201] * 3
        assert all(seconds < LATE_S + MARGIN_S for _, seconds in client.answers.values()), "many wait together"
        link.delay = TOO_LATE_S
        began = time.monotonic()
        await client.create("lost-a", "lost-b")
        assert set(client.codes("lost-a", "lost-b")) <= {500, 503, 504}
        status, names = await client.stored("?resourceVersion=0")
        assert (status, {"before", "late-a"} <= names) == (200, True), "what any version will do for is served"
        assert time.monotonic() - began < DEADLINE_S + MARGIN_S
    finally:
        link.delay = 0.0

    async def created() -> int:
        await client.create("after")
        return client.codes("after")[0]

    await until_async("writes are taken again", created, timeout=120, every=0.2, good=lambda code: code == 201)
    status, names = await client.stored()
    acknowledged = {name for name, (code, _) in client.answers.items() if code == 201}
    assert status == 200
    assert names >= acknowledged, "acknowledged and lost"
    assert not plane.tracebacks()
