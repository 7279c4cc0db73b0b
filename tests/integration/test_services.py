"""Services at two API server processes of one plane: no address twice, none lost, and the service `kubernetes`."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import store_options
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.waiting import until_async

SERVICES, ALL = "/api/v1/namespaces/default/services", "/api/v1/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
MERGE = {"Content-Type": "application/merge-patch+json"}
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
RANGE = 30
"""Addresses of a /27 beside its own and the broadcast one."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running_plane(service_cluster_ip_range="10.7.0.0/27") as started:
        started.spawn("apiserver-1")
        yield started


def body(name: str, **spec: object) -> dict[str, object]:
    metadata = {"name": name, "labels": {"test": "yes"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}], **spec}}


async def create(session: aiohttp.ClientSession, name: str, **spec: object) -> tuple[int, Any]:
    async with session.post(SERVICES, json=body(name, **spec)) as answer:
        return answer.status, await answer.json()


async def addresses(session: aiohttp.ClientSession) -> list[str]:
    async with session.get(ALL) as answer:
        return [item["spec"]["clusterIP"] for item in (await answer.json())["items"]]


async def remove(session: aiohttp.ClientSession) -> None:
    async with session.get(SERVICES, params={"labelSelector": "test=yes"}) as answer:
        names = [item["metadata"]["name"] for item in (await answer.json())["items"]]
    for name in names:
        async with session.delete(f"{SERVICES}/{name}") as answer:
            assert answer.status == 200


async def test_addresses_of_a_small_range_are_all_given_and_none_twice(plane: Plane) -> None:
    async with plane.client() as session, plane.client() as other:
        made = await asyncio.gather(*(create((session, other)[n % 2], f"s{n}") for n in range(RANGE)))
        codes = Counter(code for code, _ in made)
        found = await addresses(session)
        assert len(set(found)) == len(found)
        assert "10.7.0.1" in found, "of the service kubernetes"
        while codes[201] < RANGE - 1:  # attempts of one request are bounded
            code, answer = await create(session, f"t{codes[201]}")
            assert code == 201, answer
            codes[201] += 1
        code, answer = await create(session, "full")
        assert (code, answer["message"]) == (
            500, "Internal error occurred: failed to allocate a serviceIP: range is full"
        )  # fmt: skip
        await remove(session)
        assert (await create(session, "again", clusterIP="10.7.0.9"))[0] == 201, (
            "a deleted service releases its address"
        )
        code, answer = await create(other, "too", clusterIP="10.7.0.9")
        assert (code, answer["details"]["causes"][0]["message"]) == (
            422,
            'Invalid value: ["10.7.0.9"]: failed to allocate IP 10.7.0.9: provided IP is already allocated',
        )
        async with session.post(f"{SERVICES}?dryRun=All", json=body("dry", clusterIP="10.7.0.9")) as tried:
            assert tried.status == 422
        async with session.post(f"{SERVICES}?dryRun=All", json=body("dry", clusterIP="10.7.0.10")) as tried:
            assert tried.status == 201
        assert "10.7.0.10" not in await addresses(session)
        await remove(session)


async def test_node_port_is_refused_while_another_service_has_it(plane: Plane) -> None:
    async with plane.client() as session:
        ports = [{"port": 80, "nodePort": 30080}]
        assert (await create(session, "one", type="NodePort", ports=ports))[0] == 201
        code, answer = await create(session, "two", type="NodePort", ports=ports)
        assert (code, answer["details"]["causes"][0]["message"]) == (
            422, "Invalid value: 30080: provided port is already allocated"
        )  # fmt: skip
        code, two = await create(session, "two", type="NodePort")
        two["spec"]["ports"][0]["nodePort"] = 30080
        async with session.put(f"{SERVICES}/two", json=two) as answer:
            assert answer.status == 422
        async with session.patch(
            f"{SERVICES}/one",
            json={"spec": {"type": "ClusterIP"}},
            headers=MERGE,
        ) as answer:
            assert answer.status == 200
        async with session.put(f"{SERVICES}/two", json=two) as answer:
            assert (answer.status, (await answer.json())["spec"]["ports"][0]["nodePort"]) == (200, 30080)
        await remove(session)


async def test_service_kubernetes_comes_back_and_keeps_its_endpoints(plane: Plane) -> None:
    async with plane.client() as session:

        async def get(path: str) -> Any:
            async with session.get(path) as answer:
                return await answer.json() if answer.status == 200 else None

        first = await get(f"{SERVICES}/kubernetes")
        assert first is not None
        assert first["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
        assert first["spec"]["clusterIPs"] == ["10.7.0.1"]
        assert first["spec"]["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": plane.port}]
        found = await get(SLICE)
        assert found is not None
        assert [endpoint["addresses"] for endpoint in found["endpoints"]] == [["127.0.0.1"]]
        for path in (f"{SERVICES}/kubernetes", SLICE):
            async with session.delete(path) as answer:
                assert answer.status == 200
        async with session.patch(
            ENDPOINTS,
            json={"subsets": None}, headers=MERGE,
        ) as answer:  # fmt: skip
            assert answer.status == 200

        async def restored() -> bool:
            service, ends = (
                await get(f"{SERVICES}/kubernetes"),
                await get("/api/v1/namespaces/default/endpoints/kubernetes"),
            )
            return service is not None and bool(ends and ends.get("subsets")) and await get(SLICE) is not None

        await until_async("all three", restored)
        again = await get(f"{SERVICES}/kubernetes")
        assert again is not None
        assert again["spec"] == first["spec"]
        assert again["metadata"]["uid"] != first["metadata"]["uid"]


async def test_addresses_stay_reserved_and_records_are_repaired_by_a_restart(plane: Plane) -> None:
    async with plane.client() as session:
        assert (await create(session, "kept", clusterIP="10.7.0.5"))[0] == 201
    orphan, record = "/registry/ipaddresses/10.7.0.6", "/registry/ipaddresses/10.7.0.5"
    store = EtcdClient(store_options(plane.settings, plane.settings.layout)[0])
    await store.start()
    await store.put(orphan.encode(), b"{}")
    found, _ = await store.get(record.encode())
    assert found is not None
    await store.delete_if_revision(record.encode(), found.mod_revision)  # as before there were records
    for name in ("apiserver-0", "apiserver-1"):
        plane.kill(name)
    plane.spawn("apiserver-0")
    plane.wait_ready()

    async def repaired() -> bool:
        return (await store.get(record.encode()))[0] is not None and (await store.get(orphan.encode()))[0] is None

    await until_async("records as the services are", repaired)
    await store.close()
    async with plane.client() as session:
        assert (await create(session, "other", clusterIP="10.7.0.5"))[0] == 422
        assert (await create(session, "free", clusterIP="10.7.0.6"))[0] == 201
        await remove(session)
