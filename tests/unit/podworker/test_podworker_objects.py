"""Objects that pods refer to are read once for pods that ask together, and never from before a pod asked."""

import asyncio
from typing import Any

import pytest

from actors.podworker.clients.api import MAX_RETAINED, RETAINED_S, ROOT_CA, ApiObjects, SharedReads
from protocols.kube.errors import ApiAway
from protocols.lifecycle.pods.types import PodSpec

Object = dict[str, Any]


class Client:
    """Counts reads; each lasts until `let` is set and returns the version as of its begin."""

    def __init__(self) -> None:
        self.reads = 0
        self.version = 1
        self.let = asyncio.Event()
        self.error: Exception | None = None

    async def get(self, resource: object, name: str, namespace: str, timeout: float) -> Object:
        self.reads += 1
        version = self.version
        await self.let.wait()
        if self.error is not None:
            raise self.error
        return {"metadata": {"name": name, "namespace": namespace}, "data": {"version": str(version)}}


@pytest.mark.parametrize(("granted", "lifetime"), [({"expirationSeconds": 600}, 600.0), ({}, 3600.0)])
async def test_token_lives_as_long_as_the_api_granted(granted: Object, lifetime: float) -> None:
    class Tokens:
        async def create(self, resource: object, body: Object, namespace: str, subresource: str) -> Object:
            return {"spec": granted, "status": {"token": "t"}}

    objects = ApiObjects(Tokens())  # type: ignore[arg-type]  # create is all it needs
    assert await objects.token(PodSpec("u", "p", "ns"), "", 3600) == ("t", lifetime)


async def begin(objects: ApiObjects, count: int, name: str = "c") -> "list[asyncio.Task[Object | None]]":
    tasks = [asyncio.create_task(objects.read("ConfigMap", "ns", name)) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def versions(found: list[Object | None]) -> list[str]:
    return [each["data"]["version"] for each in found if each is not None]


async def test_reads_of_pods_that_start_together_are_shared() -> None:
    client = Client()
    tasks = await begin(ApiObjects(client), 100)  # type: ignore[arg-type]  # get is all it needs
    client.let.set()
    assert versions(await asyncio.gather(*tasks)) == ["1"] * 100
    assert client.reads <= 2


async def test_read_that_began_before_a_write_is_not_given_to_a_later_pod() -> None:
    client = Client()
    objects = ApiObjects(client)  # type: ignore[arg-type]  # get is all it needs
    early = await begin(objects, 1)
    client.version = 2
    late = await begin(objects, 2)
    client.let.set()
    assert versions(await asyncio.gather(*early, *late)) == ["1", "2", "2"]
    assert client.reads == 2


async def test_cancelled_pod_does_not_end_the_read_of_others() -> None:
    client = Client()
    objects = ApiObjects(client)  # type: ignore[arg-type]  # get is all it needs
    first, second, third = await begin(objects, 3)
    first.cancel()
    second.cancel()
    client.let.set()
    assert versions([await third]) == ["1"]


async def test_failed_read_fails_those_who_share_it_and_is_not_retained() -> None:
    client = Client()
    client.error = ApiAway("away")
    objects = ApiObjects(client)  # type: ignore[arg-type]  # get is all it needs
    tasks = await begin(objects, 3, ROOT_CA)
    client.let.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [ApiAway] * 3
    client.error = None
    assert await objects.read("ConfigMap", "ns", ROOT_CA) is not None


async def test_certificate_authority_of_a_namespace_is_read_once_in_a_while() -> None:
    times, reads = iter((0.0, 0.0, 1.0, RETAINED_S - 0.1, RETAINED_S + 0.1, RETAINED_S + 0.1, 0.0)), 0

    async def load() -> Object | None:
        nonlocal reads
        reads += 1
        return {} if reads == 1 else {"read": reads}

    shared = SharedReads(clock=lambda: next(times))
    key = ("ConfigMap", "ns", ROOT_CA)
    for _ in range(3):
        assert await shared.read(key, load) == {}
    assert await shared.read(key, load) == {"read": 2}
    assert (await shared.read(("Secret", "ns", ROOT_CA), load), reads) == ({"read": 3}, 3)


@pytest.mark.parametrize("found", [None, {"data": {}}])
async def test_retained_objects_are_bounded_and_absence_is_not_retained(found: Object | None) -> None:
    async def load() -> Object | None:
        return found

    shared = SharedReads(clock=lambda: 0.0)
    for number in range(MAX_RETAINED + 10):
        await shared.read(("ConfigMap", f"ns-{number}", ROOT_CA), load)
    assert len(shared.retained) == (MAX_RETAINED if found is not None else 0)
    assert not shared._waiting
    assert not shared._sent
