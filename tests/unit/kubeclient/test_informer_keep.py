"""What an informer retains of objects: reduced one by one, in lists, initial events and changes alike."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.controllers.common.informers import ChangeHandler
from protocols.kinds.table import PODS
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, meta
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.support.memory_api import MemoryApi
from tests.support.waiting import until_true


def pod(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": {"containers": [{"env": []}]}}


def reduced(obj: Any) -> Object:
    assert (obj["apiVersion"], obj["kind"]) == ("v1", "Pod")
    if "broken" in meta(obj).get("labels", {}):
        raise TypeError("unfit")
    return {"metadata": obj["metadata"]}


class Undecodable(MemoryApi):
    """Fails with 500 in place of each MODIFIED event, as a server that cannot decode what it stored."""

    async def watch(self, *args: Any, **query: Any) -> AsyncIterator[Object]:
        async for event in super().watch(*args, **query):
            if event["type"] == "MODIFIED":
                raise ApiError(500, {"message": "unable to decode watch event"})
            yield event


class Following:
    def __init__(self, streams: bool, served: MemoryApi | None = None) -> None:
        self.api = served or MemoryApi()
        self.api.streams = streams
        self.seen: list[Object] = []
        api: Any = self.api
        self.informer = Informer(
            api, PODS, InformerOptions(keep=reduced), ChangeHandler(self.seen.append, self.seen.append)
        )

    async def __aenter__(self) -> "Following":
        self.task = asyncio.create_task(self.informer.run())
        await self.informer.wait_synced(5)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def list_again(self) -> None:
        await self.__aexit__()
        self.informer.reflector.position = ""
        await self.__aenter__()
        await until_true(lambda: self.informer.reflector.lists == 2)


@pytest.mark.parametrize("streams", [True, False])
async def test_handlers_and_items_have_reduced_objects_only(streams: bool) -> None:
    following = Following(streams)
    following.api.put(PODS, pod("a"))
    async with following as here:
        here.api.put(PODS, pod("b"))
        await until_true(lambda: len(here.informer.items) == 2)
        assert all(set(obj) == {"metadata"} for obj in [*here.informer.items.values(), *here.seen])


@pytest.mark.parametrize("streams", [True, False])
async def test_object_that_cannot_be_reduced_is_left_out(streams: bool) -> None:
    following = Following(streams)
    following.api.put(PODS, pod("a", broken="yes"))
    following.api.put(PODS, pod("b"))
    async with following as here:
        here.api.put(PODS, pod("c", broken="yes"))
        here.api.put(PODS, pod("d"))
        await until_true(lambda: "ns/d" in here.informer.items)
        assert set(here.informer.items) == {"ns/b", "ns/d"}


@pytest.mark.parametrize("streams", [True, False])
async def test_object_that_cannot_be_reduced_any_more_stays_as_it_was(streams: bool) -> None:
    following = Following(streams)
    following.api.put(PODS, pod("a"))
    async with following as here:
        known = here.informer.items["ns/a"]
        here.api.put(PODS, pod("a", broken="yes"))
        here.api.put(PODS, pod("b"))
        await until_true(lambda: "ns/b" in here.informer.items)
        assert here.informer.items["ns/a"] is known
        await here.list_again()
        assert here.informer.items["ns/a"] is known
        here.api.drop(PODS, "a", "ns")
        await until_true(lambda: "ns/a" not in here.informer.items)


async def test_object_in_place_of_one_whose_deletion_raises_is_added() -> None:
    added: list[str] = []

    def gone(obj: Object) -> None:
        raise KeyError("a bug")

    api: Any = MemoryApi()
    informer = Informer(api, PODS, InformerOptions(), ChangeHandler(lambda obj: added.append(meta(obj)["uid"]), gone))
    for uid in ("u1", "u2"):
        metadata = {"name": "a", "namespace": "ns", "uid": uid, "resourceVersion": uid}
        informer._take({"type": "ADDED", "object": {"metadata": metadata}})
    assert added == ["u1", "u2"]


async def test_change_that_the_server_cannot_send_leads_to_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocols.kubeclient.reflector.MOST_S", 0.001)
    following = Following(True, Undecodable())
    following.api.put(PODS, pod("a"))
    async with following as here:
        here.api.put(PODS, pod("a", changed="yes"))
        await until_true(lambda: "changed" in here.informer.items["ns/a"]["metadata"]["labels"])
        assert here.informer.reflector.lists == 2
