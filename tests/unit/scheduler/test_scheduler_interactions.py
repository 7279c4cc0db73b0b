"""Nominated pods beside shares, binding conditions, patches, extended resources and restarts of the scheduler."""

import asyncio
import math
import os
import random

import pytest

from protocols.kinds.table import PODS, RESOURCECLAIMS, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import meta
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import (
    ATTACHED,
    Life,
    allocate,
    asking,
    devices,
    events_of,
    finish_deletions,
    freed,
    gone,
    heard,
    held,
    held_by_all,
    leaving,
    node_of,
    nominated,
    put_claim,
    put_class,
    put_extended_class,
    put_node,
    put_pod,
    put_slice,
    report,
    running,
    says,
    shared,
    slow,
    the,
    until,
    using,
)
from tests.support.waiting import until_async

SEEDS = range(30 if os.environ.get("NODEPLANE_FUZZ") else 3)


async def test_room_of_a_nomination_that_ends_goes_to_pods_that_waited_for_it() -> None:
    api = MemoryApi()
    put_node(api, "n1", {"zone": "a"}, pods=2)
    running(api, "low", "n1")
    running(api, "idle", "n1")
    async with asyncio.timeout(60), Life(api) as life:
        put_pod(api, "high", priority=5, nodeSelector={"zone": "a"})
        await until("one is evicted", lambda: leaving(api))
        (victim,) = leaving(api)
        put_pod(api, "mid", priority=3)
        await until("mid waits", lambda: says(api, "mid"))
        high, mid = sorted(life.scheduler._queue._pods.values(), key=lambda queued: -queued.priority)
        high.not_before = high.early = math.inf  # else it may be bound before the node has its other zone
        tried = mid.attempts
        api.drop(PODS, victim, "ns")
        put_node(api, "n1", {"zone": "b"}, pods=2)
        await until("mid finds no room yet", lambda: mid.attempts > tried)
        high.not_before = high.early = 0
        life.scheduler._wake.set()
        await until("high is nominated no more", lambda: nominated(api, "high") == "")
        await until("mid is bound", lambda: node_of(api, "mid") == "n1")


async def test_nominated_pod_whose_claim_is_deleted_gives_up_its_room() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", *devices(1))
    using(api, "low", "n1", 0)
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c")
        put_pod(api, "high", "c", priority=5)
        await until("low is evicted", lambda: leaving(api) == ["low"])
        api.drop(RESOURCECLAIMS, "c", "ns")
        put_claim(api, "d")
        put_pod(api, "mid", "d", priority=3)
        await until("mid waits", lambda: says(api, "mid"))
        gone(api, "low")
        await until("mid is bound", lambda: node_of(api, "mid") == "n1")
        assert nominated(api, "high") == ""


async def test_share_of_a_nominated_pod_counts_once_while_its_device_is_prepared() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", {**slow("dev"), **shared("dev", 10)})
    running(api, "low", "n1", "c-low")
    put_claim(api, "c-low")
    allocate(api, "c-low", "n1", "dev", "low", shareID="s", consumedCapacity={"m": "8"})
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c-high", capacity={"requests": {"m": "5"}})
        put_pod(api, "high", "c-high", priority=5)
        await until("low is evicted", lambda: leaving(api) == ["low"])
        gone(api, "low")
        await until("high waits for its device", lambda: held(api, "c-high"))
        put_claim(api, "c-new", capacity={"requests": {"m": "5"}})
        put_pod(api, "new", "c-new", priority=1)
        await until("the rest is allocated", lambda: held(api, "c-new"))


async def test_device_is_kept_for_a_nominated_extended_resource_over_a_restart() -> None:
    api = MemoryApi()
    put_extended_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", *devices(2))
    using(api, "low", "n1", 0)
    using(api, "other", "n1", 1, priority=9)
    async with asyncio.timeout(60):
        async with Life(api):
            put_pod(api, "high", priority=5, containers=asking())
            await until("one is evicted", lambda: leaving(api))
            (victim,) = leaving(api)
        uid = meta(the(api, PODS, victim))["uid"]
        api.drop(PODS, victim, "ns")
        async with Life(api):
            put_pod(api, "rival", priority=5, containers=asking())
            await until("the rival waits", lambda: says(api, "rival"))
            await heard()
            assert leaving(api) == [], "a second victim"
            freed(api, uid)
            await until("high is bound", lambda: node_of(api, "high") == "n1")
            await heard()
            assert node_of(api, "rival") == ""


async def test_pod_that_waits_for_its_device_is_preempted_and_its_wait_ends() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", slow("dev"))
    put_claim(api, "c-low")
    async with asyncio.timeout(60), Life(api) as life:
        put_pod(api, "low", "c-low", priority=1)
        await until("low waits for its device", lambda: life.scheduler._devices.binding.waiting)
        put_claim(api, "c-high")
        put_pod(api, "high", "c-high", priority=5)
        await until("low is preempted", lambda: events_of(life, "Preempted", "low"))
        await until("high has the device", lambda: held(api, "c-high"))
        await until("low waits for the device again", lambda: says(api, "low"))


async def test_pod_that_waits_again_after_a_restart_is_preempted_as_well() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", slow("dev"))
    put_claim(api, "c-low")
    async with asyncio.timeout(60):
        async with Life(api) as life:
            put_pod(api, "low", "c-low", priority=1)
            await until("low waits for its device", lambda: life.scheduler._devices.binding.waiting)
        put_claim(api, "c-high")
        put_pod(api, "high", "c-high", priority=5)
        async with Life(api):
            await until("high has the device", lambda: held(api, "c-high"))
        assert "low" in {meta(pod)["name"] for pod in api.objects["pods"].values()}


@pytest.mark.parametrize("rejected", [False, True])
async def test_pod_whose_claims_are_being_written_is_preempted_and_not_deleted(rejected: bool) -> None:
    """Also if the second claim is rejected: the first one must not stay reserved."""
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1", pods=1)
    put_slice(api, "n1", *devices(2))
    put_claim(api, "c1")
    put_claim(api, "c2")
    gate = api.gates["update", "resourceclaims", "c1"] = asyncio.Event()

    def fault(verb: str, resource: Resource, name: str) -> Exception | None:
        return ApiError(403, {"message": "no", "reason": "Forbidden"}) if (rejected, name) == (True, "c2") else None

    api.fault = fault
    async with asyncio.timeout(60), Life(api) as life:
        put_pod(api, "low", "c1", "c2", priority=1)
        await until("low is assumed", lambda: life.scheduler._cache.placed)
        put_pod(api, "high", priority=5)
        await until("high is nominated", lambda: nominated(api, "high"))
        await heard()
        assert leaving(api) == []
        gate.set()
        await until("high is bound", lambda: node_of(api, "high") == "n1")
        await until("low has no device", lambda: not held_by_all(api))
        await until("low waits", lambda: says(api, "low"))
        assert events_of(life, "Preempted", "low")
        assert life.scheduler._devices.binding._giving_way == {}


async def test_claim_of_extended_resources_that_is_being_written_is_released_for_a_preemptor() -> None:
    api = MemoryApi()
    put_extended_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", *devices(1))
    gate = api.gates["patch", "pods", "low"] = asyncio.Event()
    async with asyncio.timeout(60), Life(api) as life:
        finishing = asyncio.create_task(finish_deletions(api))
        put_pod(api, "low", priority=1, containers=asking())
        await until("low has the device", lambda: held_by_all(api))
        put_pod(api, "high", priority=5, containers=asking())
        await until("high is nominated", lambda: life.scheduler._preemptor.nominations)
        await heard()
        gate.set()
        await until("high is bound", lambda: node_of(api, "high") == "n1")
        await until("low waits", lambda: says(api, "low"))
        finishing.cancel()


async def test_admin_access_takes_nobody_s_share_and_is_no_victim() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", shared("dev", 10))
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c-all")
        put_pod(api, "all", "c-all", priority=1)
        await until("all is bound", lambda: node_of(api, "all"))
        put_claim(api, "c-admin", adminAccess=True)
        put_pod(api, "admin", "c-admin", priority=0)
        await until("admin is bound", lambda: node_of(api, "admin"))
        put_claim(api, "c-new", capacity={"requests": {"m": "1"}})
        put_pod(api, "new", "c-new", priority=5)
        await until("all is evicted", lambda: leaving(api) == ["all"])
        gone(api, "all")
        await until("new is bound", lambda: node_of(api, "new"))
        assert leaving(api) == []


async def test_device_kept_for_a_nominated_pod_is_explained_as_in_use() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", *devices(1))
    using(api, "low", "n1", 0)
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c")
        put_pod(api, "high", "c", priority=5)
        await until("low is evicted", lambda: leaving(api) == ["low"])
        parked(api, "high")
        gone(api, "low")
        await heard()
        put_claim(api, "d", "true")  # its text is not the one of c
        put_pod(api, "mid", "d", priority=3)
        await until("mid waits", lambda: says(api, "mid"))
        assert says(api, "mid").endswith("Devices: request r: of 1 devices 1 in use")


def parked(api: MemoryApi, name: str) -> None:
    """Keep a pod from being tried: its claim is about to be created anew."""
    pod = the(api, PODS, name)
    entries = [{"name": "t", "resourceClaimTemplateName": "t"}]
    api.put(PODS, {**pod, "spec": {**pod["spec"], "resourceClaims": entries}})


@pytest.mark.parametrize("seed", SEEDS)
async def test_most_important_pods_get_devices_that_are_prepared_late_over_random_kills(seed: int) -> None:
    """Pods that are not bound yet are never deleted, and no device is allocated twice."""
    api = MemoryApi(seed)
    chance = random.Random(seed)
    put_class(api)
    for at in range(2):
        put_node(api, f"n{at}")
        put_slice(api, f"n{at}", slow("dev"))
    names = {f"p{at}": at for at in range(6)}
    for name in chance.sample(sorted(names), len(names)):
        put_claim(api, f"c-{name}")
        put_pod(api, name, f"c-{name}", priority=names[name])
    ended: set[str] = set()

    def step() -> None:
        for name in leaving(api):
            assert node_of(api, name), "only bound pods are deleted"
            if chance.random() < 0.3:
                ended.add(name)
                gone(api, name)
        for name in names.keys() - ended:
            if held(api, f"c-{name}") and chance.random() < 0.05:
                report(api, f"c-{name}", ATTACHED)
        used = held_by_all(api)
        assert len(used) == len(set(used))

    async def lived() -> dict[str, str]:
        async with Life(api):
            for _ in range(chance.randrange(5, 60)):
                step()
                await asyncio.sleep(0.004)
        return {name: node_of(api, name) for name in names.keys() - ended}

    await until_async("p4 and p5 bound", lived, 120, good=lambda nodes: node_of(api, "p5") and node_of(api, "p4"))
    assert all(name in ended or the(api, PODS, name) for name in names), "nobody else is deleted"
