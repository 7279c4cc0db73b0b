"""A store at its quota, under a plane: writes fail as upstream has it, reads, watches and deletions go on."""

import asyncio
import time

import aiohttp
import pytest

from tests.support.apiserver_plane import Plane
from tests.support.engine import ETCD, OURS
from tests.support.servers import Session, X

QUOTA = 12_000_000
NO_SPACE = "etcdserver: mvcc: database space exceeded"


@pytest.fixture(params=[OURS, ETCD])
def plane(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]  # a generator of one plane
    """An API server on each store with a small quota."""
    made = Plane(store=request.param, store_quota_bytes=QUOTA)
    if made._etcd:
        made._etcd.command.append(f"--quota-backend-bytes={QUOTA}")
    try:
        made.start()
        yield made
    finally:
        made.close()


def big(number: int) -> dict[str, object]:
    metadata = {"name": f"big-{number}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * 300_000}}


async def test_full_store_answers_as_upstream_and_goes_on_reading(plane: Plane) -> None:
    async with plane.client() as http:
        api = Session(http)
        count, status = await fill(http)
        assert (status["code"], status.get("reason"), status["message"]) == (500, None, NO_SPACE)
        start = await api.version()
        async with api.watch(start) as watch, http.delete(f"{X}/big-0") as answer:
            assert answer.status == 200, await answer.text()
            assert (await watch.next())[::2] == ("DELETED", "big-0")
        async with http.get(X, params={"limit": "3"}) as answer:
            assert len((await answer.json())["items"]) == 3
        assert count > 3
        code, text = await asyncio.to_thread(plane.get_text, "/readyz")
        assert (code, text) == (200, "ok"), "reads go on"


async def fill(http: aiohttp.ClientSession) -> tuple[int, dict[str, object]]:
    """How many fit, and the refusal."""
    deadline = time.monotonic() + 60
    for number in range(100):
        assert time.monotonic() < deadline
        async with http.post(X, json=big(number)) as answer:
            body = await answer.json()
            if answer.status != 201:
                return number, body
    raise AssertionError("the quota was not reached")
