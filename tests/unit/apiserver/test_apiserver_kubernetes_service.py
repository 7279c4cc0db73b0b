"""The service `kubernetes`: what several API servers want of its endpoints."""

from typing import Any

import pytest

from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.bootstrap.kubernetes_service import (
    ANNOUNCED,
    MASTERS,
    ApiAddress,
    KubernetesService,
    corrected,
    endpoint_slice,
    endpoints,
)
from actors.apiserver.table import TABLE
from protocols.kube.meta import Object


class FakeStorage:
    """Objects by store and announcements, without revisions."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.keys: dict[str, bytes] = {}
        self.writes = 0

    async def create(self, row: Any, key: str, raw: bytes) -> None:
        self.objects[row.store] = Stored(key, 1, raw).obj
        self.writes += 1

    async def update(self, row: Any, old: Stored, raw: bytes) -> None:
        await self.create(row, old.key, raw)

    async def announce(self, row: Any, key: str, value: bytes, ttl: int) -> None:
        self.keys[key] = value

    async def records(self, row: Any, prefixes: tuple[str, ...]) -> tuple[dict[str, bytes], int]:
        return {key: value for key, value in self.keys.items() if key.startswith(prefixes)}, 1


class FakeReplica:
    def __init__(self, storage: FakeStorage, plural: str) -> None:
        self.resource = TABLE.of(plural)
        self.objects = self
        self._storage = storage

    def get(self, key: str) -> Stored | None:
        found = self._storage.objects.get(self.resource.store)
        return None if found is None else Stored(key, 1, encode_object(found))


def server(storage: FakeStorage, host: str, port: int = 6443, shared: bool = True) -> KubernetesService:
    replicas: Any = {(made := FakeReplica(storage, name)).resource.store: made for name in KINDS}
    made_storage: Any = storage
    return KubernetesService(made_storage, replicas, ApiAddress(host, port, "10.96.0.0/16", shared))


KINDS = ("services", "endpoints", "endpointslices")


async def test_servers_of_one_store_agree_on_the_endpoints() -> None:
    storage = FakeStorage()
    first, second = server(storage, "10.0.0.1"), server(storage, "10.0.0.2", 7443)
    for _ in range(2):
        await first._reconcile(announce=True)
        await second._reconcile(announce=True)
    subsets = storage.objects["endpoints"]["subsets"]
    assert [(s["addresses"], s["ports"][0]["port"]) for s in subsets] == [
        ([{"ip": "10.0.0.1"}], 6443), ([{"ip": "10.0.0.2"}], 7443)
    ]  # fmt: skip
    settled = storage.writes
    for each in (first, second):
        await each._reconcile(announce=True)
    assert storage.writes == settled, "nobody undoes what another wrote"
    del storage.keys[f"{ANNOUNCED}7443/10.0.0.2"]
    await first._reconcile(announce=True)
    assert len(storage.objects["endpoints"]["subsets"]) == 1, "the lease of the other has ended"


async def test_announcement_that_expired_is_made_again_in_the_next_round() -> None:
    """After a suspended machine had resumed, it came up to three rounds later."""
    storage = FakeStorage()
    await server(storage, "10.0.0.1")._reconcile(announce=False)
    assert list(storage.keys) == [f"{ANNOUNCED}6443/10.0.0.1"]


@pytest.mark.parametrize("key", ["6443/no-address", "0/10.0.0.9", "99999/10.0.0.9", "x/10.0.0.9", "6443", "6443/::1/x"])
async def test_announcement_of_another_form_is_ignored(key: str) -> None:
    storage = FakeStorage()
    storage.keys[f"{ANNOUNCED}{key}"] = b"{}"
    await server(storage, "10.0.0.1")._reconcile(announce=True)
    assert [s["addresses"] for s in storage.objects["endpoints"]["subsets"]] == [[{"ip": "10.0.0.1"}]]


async def test_endpoints_are_left_to_a_kube_apiserver() -> None:
    storage = FakeStorage()
    storage.keys[f"{MASTERS}192.0.2.1"] = b"k8s\0"
    await server(storage, "10.0.0.1")._reconcile(announce=True)
    assert set(storage.objects) == {"services"}
    assert storage.objects["services"]["spec"]["clusterIP"] == "10.96.0.1"


async def test_server_alone_announces_nothing() -> None:
    storage = FakeStorage()
    await server(storage, "127.0.0.1", shared=False)._reconcile(announce=True)
    assert (storage.keys, len(storage.objects)) == ({}, 3)


@pytest.mark.parametrize("make", [endpoints, endpoint_slice])
def test_objects_changed_by_users_are_corrected_and_keep_foreign_labels(make: Any) -> None:
    wanted = make([(6443, "10.0.0.1")])
    held = {**wanted, "metadata": {**wanted["metadata"], "labels": {**wanted["metadata"]["labels"], "own": "x"}}}
    assert corrected(held, wanted) is None
    broken = {key: value for key, value in held.items() if key not in ("subsets", "endpoints")}
    assert corrected(broken, wanted) == held


def test_slice_has_one_family_and_one_port() -> None:
    made = endpoint_slice([(6443, "10.0.0.1"), (6443, "fd00::1"), (7443, "10.0.0.2")])
    assert (made["addressType"], [e["addresses"] for e in made["endpoints"]]) == ("IPv4", [["10.0.0.1"]])
