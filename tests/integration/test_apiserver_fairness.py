"""One user with many connections beside others: who is served, who waits, who is answered 429."""

import asyncio
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import aiohttp
import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.connections import Connections
from tests.support.hog import hogging
from tests.support.waiting import until_async

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS, SIZE = 600, 2000
HOG_CONNECTIONS = 140
USERS, ROUNDS = 10, 8
SOONER = 3
"""How many times sooner others are answered; without fairness it is not once."""
WAITED = 'apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",'
"""Of requests that were executed. The queue is empty at most moments: rejected clients stay away for a second."""
REJECTED = "apiserver_flowcontrol_rejected_requests_total{"
FLOW = 'flow_schema="global-default",priority_level="global-default"'


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with many config maps that everybody may use."""
    with running_plane() as started:
        started.kubectl("create", "clusterrole", "free", "--verb=*", "--resource=configmaps")
        started.kubectl("create", "clusterrolebinding", "free", "--clusterrole=free", "--group=system:authenticated")
        asyncio.run(fill(started))
        yield started


async def fill(plane: Plane) -> None:
    async with plane.client() as session:

        async def one(number: int) -> None:
            body = {"metadata": {"name": f"filled-{number}"}, "data": {"fill": "x" * SIZE}}
            async with session.post(CONFIGMAPS, json=body) as answer:
                assert answer.status == 201, await answer.text()

        await asyncio.gather(*(one(number) for number in range(OBJECTS)))
        await until_free(session)


async def until_free(session: aiohttp.ClientSession) -> None:
    """The role holds, and all objects are there."""

    async def listed() -> tuple[int, int]:
        async with session.get(CONFIGMAPS, headers={"Impersonate-User": "hog"}) as answer:
            return answer.status, len((await answer.json()).get("items", ()))

    what, whole = f"the hog may list {OBJECTS} objects", (200, OBJECTS)
    await until_async(what, listed, good=lambda found: found == whole)


class Others:
    """Ordinary clients: the status and the seconds of each answer."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.seconds: list[float] = []

    async def use(self, session: aiohttp.ClientSession, user: str) -> None:
        headers = {"Impersonate-User": user}
        for number in range(ROUNDS):
            if number % 2:
                await self.timed(session.get(f"{CONFIGMAPS}/filled-1", headers=headers))
            else:
                body = {"metadata": {"name": f"{user}-{number}"}}
                await self.timed(session.post(CONFIGMAPS, json=body, headers=headers))

    async def read(self, session: aiohttp.ClientSession, path: str) -> None:
        for _ in range(ROUNDS):
            await self.timed(session.get(path))

    async def timed(self, asked: Any) -> None:
        began = time.monotonic()
        async with asked as answer:
            await answer.read()
        self.statuses.append(answer.status)
        self.seconds.append(time.monotonic() - began)


def session_of(plane: Plane, connections: Connections, user: str = "admin") -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=plane.tls(user), limit=0, socket_factory=connections.make)
    return aiohttp.ClientSession(plane.url, connector=connector, timeout=aiohttp.ClientTimeout(total=120))


def value_of(text: str, name: str) -> float:
    found = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


async def test_a_user_with_many_connections_waits_and_nobody_else_does(plane: Plane) -> None:
    others, connections = Others(), Connections()

    async def play() -> str:
        await until_crowded(plane)
        async with (
            session_of(plane, connections) as session,
            session_of(plane, connections, "scheduler") as scheduler,
            session_of(plane, connections, "podworker") as node,
        ):
            users = [others.use(session, f"user-{number}") for number in range(USERS)]
            own = others.read(scheduler, "/api/v1/nodes"), others.read(node, "/api/v1/nodes/n1")
            await asyncio.gather(*users, *own)
        await connections.closed()
        return await plane.metrics("apiserver-0")

    with hogging(plane, CONFIGMAPS, HOG_CONNECTIONS, "hog") as hog:
        text = await play()
    told = hog.told
    assert set(others.statuses) <= {200, 201, 404}
    assert set(told.statuses) == {200, 429}
    assert told.reasons == {"TooManyRequests"}
    assert {"1"} <= told.retry_after <= {str(seconds) for seconds in range(1, 33)}
    assert median(others.seconds) * SOONER <= median(told.seconds)
    assert value_of(text, WAITED + FLOW) > 0
    await until_idle(plane)


async def until_crowded(plane: Plane) -> None:
    """Wait until the hog, whose process may get little of the machine, fills its queue."""

    async def rejected() -> float:
        return value_of(await plane.metrics("apiserver-0"), REJECTED + FLOW)

    await until_async("a request of the hog is rejected", rejected, every=0.05)


async def until_idle(plane: Plane) -> None:
    gauges = ("executing_seats", "executing_requests", "inqueue_requests")

    async def used() -> tuple[list[float], str]:
        text = await plane.metrics("apiserver-0")
        return [value_of(text, f"apiserver_flowcontrol_current_{gauge}{{") for gauge in gauges], text

    _, text = await until_async("seats are given back", used, every=0.05, good=lambda found: not any(found[0]))
    for schema in ("exempt", "system-nodes", "system-node-high", "kube-scheduler"):
        assert not value_of(text, f'apiserver_flowcontrol_rejected_requests_total{{flow_schema="{schema}"')


async def test_a_client_that_reads_nothing_gives_its_seats_back(plane: Plane) -> None:
    """Lists whose answers are not read keep nobody waiting, and end with their connections."""

    connections = Connections()
    async with session_of(plane, connections) as slow, session_of(plane, connections) as session:
        held = [asyncio.create_task(slow.get(CONFIGMAPS, headers={"Impersonate-User": "slow"})) for _ in range(20)]
        async with session.get(f"{CONFIGMAPS}/filled-1", headers={"Impersonate-User": "quick"}) as answer:
            assert answer.status == 200
        await until_idle(plane)
        for each in held:
            each.cancel()
        for answered in await asyncio.gather(*held, return_exceptions=True):
            if isinstance(answered, aiohttp.ClientResponse):
                answered.close()
    await connections.closed()
    await until_idle(plane)
