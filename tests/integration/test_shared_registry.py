"""A store that a kube-apiserver shares: values in protobuf are objects like others; unknown ones are named."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from protocols.kube.protobuf import encode_object
from protocols.wire.protobuf import delimited
from tests.support.api_judge import Client
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
KEYS = "/registry/configmaps/default/"
JSON, MERGE = {"Content-Type": "application/json"}, {"Content-Type": "application/merge-patch+json"}
UNKNOWN = b"k8s\0" + delimited(1, delimited(1, b"v9") + delimited(2, b"ConfigMap")) + delimited(2, b"")
BROKEN = b"k8s\0\n\xff"


def config_map(name: str, **data: str) -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return encode_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def put(plane: Plane, values: dict[str, bytes]) -> None:
    async def story() -> None:
        client = EtcdClient(EtcdOptions(endpoints=(plane.settings.store_endpoints[0],), timeout=30.0))
        await client.start()
        for name, value in values.items():
            await client.put(f"{KEYS}{name}".encode(), value)
        await client.close()

    asyncio.run(story())


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with its store."""
    with running_plane() as started:
        put(started, {"early": config_map("early", a="1"), "unknown": UNKNOWN, "broken": BROKEN})
        yield started
        assert all(process.poll() is None for process in started.processes.values()), started.logs()
        assert not started.tracebacks()


@pytest.fixture
def client(plane: Plane) -> Iterator[Client]:
    made = Client(plane.port, plane.tls())
    yield made
    made.close()


def read(client: Client, name: str, query: str = "") -> Any:
    answer = client.ask("GET", f"{MAPS}/{name}{query}")
    assert answer.status == 200, answer.body
    return answer.json


def readable(client: Client, name: str, query: str) -> Any:
    """The object; None while the cache that a read at any version asks is behind."""
    answer = client.ask("GET", f"{MAPS}/{name}{query}")
    return answer.json if answer.status == 200 else None


@pytest.mark.parametrize("query", ["", "?resourceVersion=0"])
def test_protobuf_value_in_the_store_is_read(plane: Plane, client: Client, query: str) -> None:
    found = until("it is there", lambda: readable(client, "early", query))
    assert (found["data"], found["metadata"]["uid"]) == ({"a": "1"}, "u-early")


def test_protobuf_value_is_read_after_the_watch_cache_listed_it(plane: Plane, client: Client) -> None:
    put(plane, {"listed": config_map("listed", a="1")})
    plane.kill("watchcache")
    plane.spawn("watchcache")
    put(plane, {"followed": config_map("followed", b="2")})
    assert read(client, "listed")["data"] == {"a": "1"}
    assert read(client, "followed")["data"] == {"b": "2"}
    listed = client.ask("GET", MAPS).json["items"]
    assert {"listed", "followed"} <= {item["metadata"]["name"] for item in listed}


def test_protobuf_value_is_changed_and_deleted_through_the_api(plane: Plane, client: Client) -> None:
    put(plane, {"changed": config_map("changed", a="1")})
    body = json.dumps({"data": {"b": "2"}}).encode()
    answer = client.ask("PATCH", f"{MAPS}/changed", body, MERGE)
    assert (answer.status, answer.json["data"]) == (200, {"a": "1", "b": "2"})
    assert client.ask("DELETE", f"{MAPS}/changed", b"{}", JSON).status == 200
    assert client.ask("GET", f"{MAPS}/changed").status == 404


@pytest.mark.parametrize("name", ["unknown", "broken"])
def test_unknown_protobuf_value_is_left_out_and_named(plane: Plane, client: Client, name: str) -> None:
    answer = client.ask("GET", f"{MAPS}/{name}")
    assert (answer.status, f"Key: {KEYS}{name}" in answer.json["message"]) == (500, True)
    told = f"stored object is left out key={KEYS}{name} reason=object not decodable: protobuf of a kind"
    until("its log line", lambda: told in (plane.root / "apiserver-0.log").read_text())


def test_unreadable_values_are_counted(plane: Plane) -> None:
    wanted = 'nodeplane_replica_unreadable{group="",resource="configmaps"} 2'
    until("both are counted", lambda: wanted in asyncio.run(plane.metrics("apiserver-0")))
