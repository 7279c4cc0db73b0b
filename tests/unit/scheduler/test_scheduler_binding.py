"""Pods whose devices are prepared after allocation: the wait, its end by conditions, failure, time, kill, deletion."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import generate_latest

from actors.scheduler import actor
from protocols.dra.binding import READY, verdict
from protocols.dra.pods import results_of
from protocols.kinds.table import PODS, RESOURCECLAIMS, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import meta
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import (
    ATTACHED,
    DRIVER,
    FAILED,
    Life,
    asking,
    bound,
    finish_deletions,
    heard,
    held,
    held_by_all,
    node_of,
    put_claim,
    put_class,
    put_extended_class,
    put_node,
    put_pod,
    put_slice,
    report,
    says,
    slow,
    the,
    until,
)

SLOW = {**slow("a-slow"), "bindsToNode": True}


@asynccontextmanager
async def world(nodes: int = 2, plain: int = 0) -> AsyncIterator[MemoryApi]:
    """Each node has a device with binding conditions, named `a-slow` so that names prefer it, and some without."""
    async with asyncio.timeout(60):
        api = MemoryApi()
        put_class(api)
        for at in range(1, nodes + 1):
            put_node(api, f"n{at}")
            put_slice(api, f"n{at}", SLOW)
            if plain:
                put_slice(api, f"n{at}", *({"name": f"d{each}"} for each in range(plain)), driver="z.example.com")
        yield api


async def waiting(api: MemoryApi, life: Life, pod: str) -> None:
    text = "waiting for binding conditions for device on node"
    await until(f"{pod} waits", lambda: any(told[0] == f"ns/{pod}" and text in told[2] for told in life.events.told))


def figure(life: Life, line: str) -> bool:
    return line in generate_latest(life.registry).decode()


async def test_pod_is_bound_once_its_devices_are_ready() -> None:
    async with world(nodes=1) as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await waiting(api, life, "p")
            assert ("ns/p", "BindingConditionsPending", "waiting for binding conditions for device on node n1") in (
                life.events.told
            )
            (result,) = the(api, RESOURCECLAIMS, "c")["status"]["allocation"]["devices"]["results"]
            assert (result["bindingConditions"], result["bindingFailureConditions"]) == ([ATTACHED], [FAILED])
            assert the(api, RESOURCECLAIMS, "c")["status"]["allocation"]["allocationTimestamp"]
            report(api, "c", ATTACHED, "False")
            await heard()
            assert node_of(api, "p") == ""
            assert figure(life, "nodeplane_scheduler_binding_waiting_pods 1.0")
            report(api, "c", ATTACHED)
            await until("bound", lambda: node_of(api, "p") == "n1")
            assert figure(life, 'nodeplane_scheduler_binding_waits_total{result="ready"} 1.0')
            assert figure(life, "nodeplane_scheduler_binding_waiting_pods 0.0")


async def test_devices_without_conditions_are_preferred() -> None:
    async with world(nodes=1, plain=1) as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api):
            await until("bound", lambda: node_of(api, "p"))
        (result,) = the(api, RESOURCECLAIMS, "c")["status"]["allocation"]["devices"]["results"]
        assert result["driver"] == "z.example.com"


async def test_waiting_pods_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "MAX_BINDING_CYCLES", 2)
    async with world(nodes=5, plain=2) as api:
        for at in range(5):
            put_claim(api, f"slow-{at}", f"device.driver == '{DRIVER}'")
            put_pod(api, f"slow-{at}", f"slow-{at}")
        async with Life(api) as life:
            for at in range(5):
                await waiting(api, life, f"slow-{at}")
            for at in range(5):
                put_claim(api, f"easy-{at}", "device.driver == 'z.example.com'")
                put_pod(api, f"easy-{at}", f"easy-{at}")
            await until("easy pods are bound", lambda: sorted(bound(api)) == [f"easy-{at}" for at in range(5)])
            for at in range(5):
                report(api, f"slow-{at}", ATTACHED)
            await until("all are bound", lambda: len(bound(api)) == 10)


async def test_failure_deallocates_and_another_node_is_tried() -> None:
    async with world() as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await waiting(api, life, "p")
            (first,) = held(api, "c")
            report(api, "c", FAILED)
            text = 'plugin "DynamicResources": claim c binding failed: reason=Because, message="it is so"'
            await until("reported", lambda: text in says(api, "p"))
            await until("elsewhere", lambda: held(api, "c") not in ([], [first]))
            assert "devices" not in the(api, RESOURCECLAIMS, "c")["status"]
            report(api, "c", ATTACHED)
            await until("bound", lambda: node_of(api, "p"))
            assert held(api, "c") == [f"{node_of(api, 'p')}/a-slow"]
            assert figure(life, 'nodeplane_scheduler_binding_waits_total{result="failed"} 1.0')


async def test_time_that_is_up_deallocates_as_well() -> None:
    async with world() as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api, binding_timeout=1.2) as life:
            await waiting(api, life, "p")
            (first,) = held(api, "c")
            await until("reported", lambda: "binding timeout" in says(api, "p"))
            await until("elsewhere", lambda: held(api, "c") not in ([], [first]))


async def test_killed_scheduler_goes_on_waiting_for_the_same_devices() -> None:
    async with world() as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await waiting(api, life, "p")
        before = the(api, RESOURCECLAIMS, "c")["status"]
        async with Life(api) as life:
            await waiting(api, life, "p")
            assert the(api, RESOURCECLAIMS, "c")["status"] == before
            report(api, "c", ATTACHED)
            await until("bound", lambda: node_of(api, "p"))


@pytest.mark.parametrize("condition", [ATTACHED, FAILED])
async def test_conditions_reported_while_the_scheduler_was_away_count(condition: str) -> None:
    async with world() as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await waiting(api, life, "p")
        report(api, "c", condition)
        async with Life(api) as life:
            if condition == FAILED:
                await until("deallocated", lambda: not the(api, RESOURCECLAIMS, "c")["status"].get("devices"))
                await until("allocated", lambda: held(api, "c"))
                await waiting(api, life, "p")
                report(api, "c", ATTACHED)
            await until("bound", lambda: node_of(api, "p"))


async def test_deleted_pod_ends_its_wait() -> None:
    async with world(nodes=1) as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await waiting(api, life, "p")
            api.drop(PODS, "p", "ns")
            obj = the(api, RESOURCECLAIMS, "c")
            api.put(RESOURCECLAIMS, {**obj, "status": {}})
            await until("the wait ended", lambda: life.scheduler._devices.binding.waiting == 0)
            put_pod(api, "q", "c")
            await waiting(api, life, "q")
            report(api, "c", ATTACHED)
            await until("bound", lambda: node_of(api, "q"))


async def test_pods_that_share_a_failed_claim_all_leave_it() -> None:
    async with world() as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        put_pod(api, "q", "c")
        async with Life(api) as life:
            await waiting(api, life, "p")
            await waiting(api, life, "q")
            (first,) = held(api, "c")
            report(api, "c", FAILED)
            await until("elsewhere", lambda: held(api, "c") not in ([], [first]))
            await until("both", lambda: len(the(api, RESOURCECLAIMS, "c")["status"].get("reservedFor") or ()) == 2)
            report(api, "c", ATTACHED)
            await until("both are bound", lambda: len(bound(api)) == 2)


@pytest.mark.parametrize("killed", [False, True])
async def test_claim_of_extended_resources_that_fails_is_made_anew(killed: bool) -> None:
    async with world() as api:
        put_extended_class(api)
        put_pod(api, "p", containers=asking())

        deleting = asyncio.ensure_future(finish_deletions(api))

        def claims() -> list[str]:
            return [meta(claim)["name"] for claim in api.objects["resourceclaims"].values() if results_of(claim)]

        async with Life(api) as life:
            await waiting(api, life, "p")
            (first,) = claims()
            if not killed:
                report(api, first, FAILED)
                await until("another claim", lambda: claims() not in ([], [first]))
        async with Life(api) as life:
            if killed:
                report(api, first, FAILED)
                await until("another claim", lambda: claims() not in ([], [first]))

            def attached() -> str:
                """The claim of the killed scheduler may go, if the pod does not name it yet."""
                for name in claims():
                    if not the(api, RESOURCECLAIMS, name)["status"].get("devices"):
                        report(api, name, ATTACHED)
                return node_of(api, "p")

            await until("bound", attached)
            status = the(api, PODS, "p")["status"]
            assert claims() == [status["extendedResourceClaimStatus"]["resourceClaimName"]] != [first]
        deleting.cancel()


async def test_gate_off_never_allocates_devices_with_conditions() -> None:
    async with world(nodes=1) as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api, {"DRADeviceBindingConditions": False}):
            await until("it waits", lambda: says(api, "p"))
            assert "it has binding conditions, whose feature gate is off" in says(api, "p")
            put_slice(api, "n1", SLOW, {"name": "b"})
            await until("bound", lambda: node_of(api, "p"))
            assert held(api, "c") == ["n1/b"]


async def test_failed_node_is_taken_again_if_there_is_no_other() -> None:
    async with world(nodes=1) as api:
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await waiting(api, life, "p")
            version = meta(the(api, RESOURCECLAIMS, "c"))["resourceVersion"]
            report(api, "c", FAILED)
            await until("deallocated", lambda: not held(api, "c"))
            await until("allocated again", lambda: held(api, "c") == ["n1/a-slow"])
            assert meta(the(api, RESOURCECLAIMS, "c"))["resourceVersion"] != version
            report(api, "c", ATTACHED)
            await until("bound", lambda: node_of(api, "p") == "n1")


SEEDS = 12 if os.environ.get("NODEPLANE_FUZZ") else 3


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_pods_are_bound_only_when_ready_over_random_reports_and_kills(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"p{at}" for at in range(4)]
    broken: list[str] = []
    async with world(nodes=3) as api:
        for name in names:
            put_claim(api, name)
            put_pod(api, name, name)

        def check(verb: str, resource: Resource, name: str) -> None:
            """A write that binds a pod, as it comes in."""
            if (verb, resource) == ("create", PODS) and verdict(the(api, RESOURCECLAIMS, name), 0).state != READY:
                broken.append(name)
            if len(devices := held_by_all(api)) != len(set(devices)):
                broken.append(f"{devices} at {name}")

        def step(reports: tuple[str, ...]) -> None:
            """A driver reports once for each allocation."""
            name = chance.choice(names)
            status = the(api, RESOURCECLAIMS, name).get("status") or {}
            if status.get("allocation") and not status.get("devices") and (text := chance.choice(reports)):
                report(api, name, text)

        api.fault = check
        for _ in range(4):
            async with Life(api):
                for _ in range(chance.randint(5, 40)):
                    step((ATTACHED, FAILED, FAILED, ""))
                    await asyncio.sleep(0.002)
        async with Life(api):
            while len(bound(api)) < 3:
                step((ATTACHED,))
                await asyncio.sleep(0.002)
        assert broken == []


@pytest.mark.parametrize(("verb", "resource"), [("create", PODS), ("update", RESOURCECLAIMS)])
async def test_room_of_a_pod_that_is_gone_before_its_binding_goes_to_pods_that_wait(
    verb: str, resource: Resource
) -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1", pods=1)
    put_slice(api, "n1", {"name": "dev"})
    put_claim(api, "c")
    gate = api.gates[verb, resource.plural, "c" if resource is RESOURCECLAIMS else "p"] = asyncio.Event()

    def gone(*_: object) -> ApiError:
        api.fault = lambda verb, resource, name: None
        api.drop(PODS, "p", "ns")
        return ApiError(404, {"message": "it is gone", "reason": "NotFound"})

    async with asyncio.timeout(60), Life(api) as life:
        put_pod(api, "p", "c")
        await until("p is assumed", lambda: life.scheduler._cache.placed)
        put_pod(api, "other")
        await until("other waits", lambda: says(api, "other"))
        await until("its backoff is over", lambda: life.scheduler._queue.counts(time.monotonic())["unschedulable"])
        api.fault = lambda *write: gone() if write[:2] == (verb, resource) else None
        gate.set()
        await until("other is bound", lambda: node_of(api, "other"))
