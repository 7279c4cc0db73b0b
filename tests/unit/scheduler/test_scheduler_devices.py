"""Pods with claims of devices, from the API's point of view: what they get, what they are told, what wakes them."""

import asyncio
import functools
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from unittest import mock

import pytest
from prometheus_client import generate_latest

from actors.scheduler.claims import device_fit
from actors.scheduler.cycles import metrics
from protocols.dra.allocator.attempt import Attempt
from protocols.dra.pods import FINALIZER
from protocols.dra.types import DeviceId
from protocols.kinds.table import (
    DEVICECLASSES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICEPATCHES,
    RESOURCESLICES,
    Resource,
)
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, meta
from protocols.process.tasks import FAILURES
from tests.support.memory_api import MemoryApi, away, conflict
from tests.support.scheduler_life import (
    DRIVER,
    GPU,
    Life,
    allocate,
    asking,
    bound,
    devices,
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
    running,
    says,
    the,
    until,
)

SEEDS = 20 if os.environ.get("NODEPLANE_FUZZ") else 5
NO_PREEMPTION = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."


@asynccontextmanager
async def playing(seed: int | None = None) -> AsyncIterator[MemoryApi]:
    async with asyncio.timeout(150):
        yield MemoryApi(seed)


def world(api: MemoryApi, nodes: int = 2, each: int = 1) -> None:
    put_class(api)
    for at in range(1, nodes + 1):
        put_node(api, f"n{at}")
        put_slice(api, f"n{at}", *devices(each))


def patch(name: str, **devices_: Any) -> Object:
    return {"metadata": {"name": name, "generation": 1}, "spec": {"devices": devices_}}


async def test_a_claim_is_allocated_reserved_and_its_pod_bound() -> None:
    async with playing() as api:
        world(api)
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await until("p bound", lambda: node_of(api, "p"))
            await until("the event", lambda: life.events.told)
        claim = the(api, RESOURCECLAIMS, "c")
        node = node_of(api, "p")
        assert held(api, "c") == [f"{node}/dev-0"]
        assert meta(claim)["finalizers"] == [FINALIZER]
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "p", "uid": meta(the(api, PODS, "p"))["uid"]}
        ]
        by_name = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        assert claim["status"]["allocation"]["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": by_name}]}
        assert ("ns/p", "Scheduled", f"Successfully assigned ns/p to {node}") in life.events.told


GOLD = 'device.attributes["example.com"].?pool.orValue("") == "gold"'


@pytest.mark.scenario("S26")
async def test_only_the_patched_device_is_right_and_a_patch_wakes_the_pod() -> None:
    async with playing() as api:
        world(api)
        put_claim(api, "c", GOLD)
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await until("it is told", lambda: says(api, "p"))
            text = "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, "
            why = f" Devices: request r: of 2 devices 2 selector #0 of the request is false: {GOLD}"
            assert says(api, "p") == text + NO_PREEMPTION.format(2) + why
            assert (life.events.told[0][0], life.events.told[0][1]) == ("ns/p", "FailedScheduling")
            gold = {"example.com/pool": {"string": "gold"}}
            api.put(RESOURCESLICEPATCHES, patch("gold", filter={"pool": "n2"}, attributes=gold))
            await until("p bound", lambda: node_of(api, "p") == "n2")
            api.drop(RESOURCESLICEPATCHES, "gold")
            put_claim(api, "d", GOLD)
            put_pod(api, "q", "d")
            await until("without the patch it waits", lambda: says(api, "q"))


@pytest.mark.scenario("S22")
async def test_patches_are_ignored_with_the_gates_off() -> None:
    async with playing() as api:
        world(api, nodes=1)
        gold = {"example.com/pool": {"string": "gold"}}
        taints = [{"key": "k", "effect": "NoSchedule"}]
        api.put(RESOURCESLICEPATCHES, patch("gold", attributes=gold, taints=taints))
        put_claim(api, "c", GOLD)
        put_pod(api, "p", "c")
        put_claim(api, "plain")
        put_pod(api, "q", "plain")
        off = {"DRAAdminControlledDeviceAttributes": False, "DRADeviceTaints": False}
        async with Life(api, off):
            await until("the taint is not there, nor the attribute", lambda: node_of(api, "q") and says(api, "p"))
        api.drop(PODS, "q", "ns")
        api.drop(RESOURCECLAIMS, "plain", "ns")
        async with Life(api, {"DRADeviceTaints": False}):
            await until("and with the attributes back", lambda: node_of(api, "p"))


@pytest.mark.scenario("S27")
async def test_a_patched_capacity_decides() -> None:
    async with playing() as api:
        put_class(api)
        put_node(api, "n1")
        put_slice(api, "n1", *({**device, "capacity": {"memory": {"value": "4Gi"}}} for device in devices(2)))
        wants = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1Gi")) >= 0'
        async with Life(api) as life:
            put_claim(api, "c", wants)
            put_pod(api, "p", "c")
            await until("p bound", lambda: node_of(api, "p"))
            api.put(RESOURCESLICEPATCHES, patch("none", capacity={f"{DRIVER}/memory": {"value": "0"}}))
            device_info = partial(life.scheduler._devices.catalog.device, DeviceId(DRIVER, "n1", "dev-1"))
            await until(
                "patched", lambda: (each := device_info()) and not each.spec.capacity[f"{DRIVER}/memory"].value.nanos
            )
            put_claim(api, "d", wants)
            put_pod(api, "q", "d")
            await until("q waits", lambda: says(api, "q"))
            assert held(api, "c") == ["n1/dev-0"]


async def test_claim_beside_extended_resources_is_free_again_if_their_claim_cannot_be_created() -> None:
    async with playing() as api:
        put_node(api, "n1")
        put_slice(api, "n1", *devices(2))
        put_extended_class(api)
        put_claim(api, "c")
        put_pod(api, "p", "c", containers=asking())
        faults = [away()]
        api.fault = lambda verb, resource, name: (
            faults.pop() if faults and (verb, resource) == ("create", RESOURCECLAIMS) else None
        )
        async with Life(api):
            await until("p bound", lambda: node_of(api, "p"))
        assert not faults


@pytest.mark.scenario("S38")
def _has(part: str, text: str) -> bool:
    return part in text


async def test_missing_or_faulty_parts_are_named() -> None:
    async with playing() as api:
        put_node(api, "n1")
        put_slice(api, "n1", *devices(2))
        put_node(api, "n2")
        put_slice(api, "n2", {"name": "dev-0", "attributes": {"x": {"int": 1}}})
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api):
            await until("the class is missed", lambda: says(api, "p"))
            text = "0/2 nodes are available: request r: device class gpu does not exist. still not schedulable, "
            assert says(api, "p") == text + NO_PREEMPTION.format(2)
            put_class(api)
            await until("p bound", lambda: node_of(api, "p"))
            for claim, pod in (("e", "o"), ("d", "q")):
                put_claim(api, claim, f'device.attributes["{DRIVER}"].x == 1')
                put_pod(api, pod, claim)
                fault = f"claim ns/{claim}: selector #0: CEL runtime error: no such key: x"
                await until("the fault is told", functools.partial(says, api, pod), good=functools.partial(_has, fault))
            condition = the(api, PODS, "q")["status"]["conditions"][0]
            assert condition["reason"] == "SchedulerError"
            assert node_of(api, "q") == "", "although another node would do"


async def test_faulty_patches_are_reported_on_the_patch_and_harm_no_pod() -> None:
    async with playing() as api:
        world(api)
        faulty = [{"cel": {"expression": f'device.attributes["{DRIVER}"].nope == 1'}}]
        api.put(
            RESOURCESLICEPATCHES,
            patch("bad", filter={"selectors": faulty}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        )
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await until("p bound", lambda: node_of(api, "p"))
            told = await until("an event", lambda: [each for each in life.events.told if each[0] == "bad"])
            assert told[0][1] == "CELRuntimeError"
            assert "no such key: nope" in told[0][2]


async def test_pod_gets_the_shared_claim_that_could_not_be_allocated_for_another() -> None:
    async with playing() as api:
        world(api)
        put_claim(api, "c")
        put_pod(api, "p", "c")
        written = api.gates["update", RESOURCECLAIMS.plural, "c"] = asyncio.Event()
        async with Life(api) as life:
            ledger, uid = life.scheduler._devices.ledger, meta(the(api, RESOURCECLAIMS, "c"))["uid"]
            await until("reserved for p", lambda: ledger.is_reserved(uid))
            put_pod(api, "q", "c")
            await heard()
            api.drop(PODS, "p", "ns")
            await heard()
            faults = [ApiError(403, {"message": "no", "reason": "Forbidden"})]
            api.fault = lambda verb, resource, name: faults.pop() if faults and resource is RESOURCECLAIMS else None
            written.set()
            await until("q is bound", lambda: node_of(api, "q"))


async def test_allocation_that_is_available_everywhere_stays_if_another_keeps_the_pod_away() -> None:
    async with playing() as api:
        world(api)
        here = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]}]
        for claim, selector in (("fabric", {}), ("local", {"nodeSelector": {"nodeSelectorTerms": here}})):
            put_claim(api, claim)
            allocate(api, claim, "fabric", claim)
            obj = the(api, RESOURCECLAIMS, claim)
            allocation = {**obj["status"]["allocation"], **selector}
            api.put(RESOURCECLAIMS, {**obj, "status": {"allocation": allocation}})
        put_pod(api, "p", "fabric", "local")
        async with Life(api):
            await until("the other one is freed", lambda: not held(api, "local"))
            await until("p is bound", lambda: node_of(api, "p"))
        assert held(api, "fabric") == ["fabric/fabric"]


@pytest.mark.scenario("S34")
async def test_five_pods_share_a_claim() -> None:
    async with playing() as api:
        world(api)
        put_claim(api, "c")
        for name in "abcde":
            put_pod(api, name, "c")
        async with Life(api):
            await until("all bound", lambda: len(bound(api)) == 5)
        assert len(the(api, RESOURCECLAIMS, "c")["status"]["reservedFor"]) == 5
        assert len({node_of(api, name) for name in "abcde"}) == 1


@pytest.mark.scenario("S35")
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_hundred_pods_get_a_hundred_devices(seed: int) -> None:
    async with playing(seed) as api:
        world(api, nodes=10, each=10)
        faults = {"update": 0.1, "create": 0.05}

        def fault(verb: str, resource: Resource, name: str) -> Exception | None:
            assert api.random is not None
            return conflict() if api.random.random() < faults.get(verb, 0) else None

        def lose(verb: str, resource: Resource, name: str) -> Exception | None:
            assert api.random is not None
            return away() if api.random.random() < 0.05 else None

        for at in range(101):
            put_claim(api, f"c{at}")
            put_pod(api, f"p{at}", f"c{at}")
        async with Life(api):
            api.fault, api.lose = fault, lose
            await until("a hundred bound", lambda: len(bound(api)) == 100, timeout=40)
        taken = held_by_all(api)
        assert len(taken) == len(set(taken)) == 100


@pytest.mark.scenario("S36")
async def test_killed_between_allocation_and_binding() -> None:
    async with playing() as api:
        world(api, nodes=5)
        put_claim(api, "c")
        put_pod(api, "p", "c")
        api.fault = lambda verb, resource, name: away() if resource is PODS else None
        life = Life(api)
        async with life:
            await until("allocated", lambda: held(api, "c"))
        assert node_of(api, "p") == ""
        node = held(api, "c")[0].partition("/")[0]
        api.fault = lambda verb, resource, name: None
        async with Life(api):
            await until("bound where the device is", lambda: node_of(api, "p") == node)
        assert len(the(api, RESOURCECLAIMS, "c")["status"]["reservedFor"]) == 1


async def test_who_may_not_read_claims_any_more_keeps_no_promise() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_claim(api, "c")
        put_pod(api, "p", "c")
        forbidden = ApiError(403, {"message": "resourceclaims is forbidden"})
        api.fault = lambda verb, resource, name: conflict() if resource is RESOURCECLAIMS else None
        async with Life(api) as life:
            with mock.patch.object(api, "get", side_effect=forbidden):
                await until("p is told", lambda: "is forbidden" in says(api, "p"))
                assert len(life.scheduler._devices.ledger) == 0
            api.fault = lambda verb, resource, name: None
            await until("p bound", lambda: node_of(api, "p"))


@pytest.mark.scenario("S36")
async def test_a_claim_deleted_meanwhile_frees_its_promise() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_claim(api, "c")
        put_pod(api, "p", "c")

        def deleted(verb: str, resource: Resource, name: str) -> Exception | None:
            if resource is RESOURCECLAIMS and name == "c":
                api.fault = lambda verb, resource, name: None
                api.drop(RESOURCECLAIMS, "c", "ns")
                return conflict()
            return None

        api.fault = deleted
        async with Life(api):
            await until(
                "it is missed", lambda: "c" not in api.objects["resourceclaims"] and "not found" in says(api, "p")
            )
            put_claim(api, "d")
            put_pod(api, "q", "d")
            await until("the device is free for others", lambda: node_of(api, "q"))


async def test_a_freed_device_wakes_who_waits_for_one() -> None:
    async with playing() as api:
        world(api, nodes=1)
        for name in "ab":
            put_claim(api, f"c{name}")
        put_pod(api, "a", "ca")
        async with Life(api):
            await until("a bound", lambda: node_of(api, "a"))
            put_pod(api, "b", "cb")
            await until("b waits", lambda: says(api, "b"))
            api.drop(PODS, "a", "ns")
            api.drop(RESOURCECLAIMS, "ca", "ns")
            await until("b bound", lambda: node_of(api, "b"))


async def test_pods_that_leave_wake_nobody_who_waits_for_a_device_only() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_claim(api, "ca")
        put_claim(api, "cb")
        for name in ("x", "y"):
            running(api, name, "n1")
        put_pod(api, "a", "ca")
        async with Life(api) as life:
            await until("a bound", lambda: node_of(api, "a"))
            waiting = put_pod(api, "b", "cb")
            await until("b waits", lambda: says(api, "b"))
            for name in ("x", "y"):
                api.drop(PODS, name, "ns")
                await heard()
            assert life.scheduler._queue._pods[meta(waiting)["uid"]].attempts == 1
            put_node(api, "n2")
            await until("b is tried again", lambda: "0/2 nodes" in says(api, "b"))


async def test_a_taint_keeps_devices_from_new_pods_and_a_toleration_opens_them() -> None:
    async with playing() as api:
        world(api, nodes=1)
        api.put(RESOURCESLICEPATCHES, patch("out", taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]))
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api):
            await until("p waits", lambda: says(api, "p"))
            put_claim(api, "d", tolerations=[{"operator": "Exists"}])
            put_pod(api, "q", "d")
            await until("q bound", lambda: node_of(api, "q"))
            api.drop(RESOURCECLAIMS, "d", "ns")
            api.drop(RESOURCESLICEPATCHES, "out")
            await until("p bound", lambda: node_of(api, "p"))


async def test_nobody_joins_a_claim_whose_users_are_driven_off() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_claim(api, "c")
        put_pod(api, "a", "c")
        async with Life(api):
            await until("a bound", lambda: node_of(api, "a"))
            api.put(RESOURCESLICEPATCHES, patch("out", taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]))
            await heard()
            put_pod(api, "b", "c")
            await until("b waits", lambda: "untolerated taint" in says(api, "b"))
            api.drop(RESOURCESLICEPATCHES, "out")
            await until("b bound", lambda: node_of(api, "b"))


async def test_an_unused_allocation_that_is_in_the_way_is_made_anew() -> None:
    async with playing() as api:
        world(api)
        put_claim(api, "c")
        put_pod(api, "a", "c")
        async with Life(api):
            await until("a bound", lambda: node_of(api, "a"))
            node = node_of(api, "a")
            api.drop(PODS, "a", "ns")
            claim = the(api, RESOURCECLAIMS, "c")
            api.put(RESOURCECLAIMS, {**claim, "status": {**claim["status"], "reservedFor": []}})
            other = "n1" if node == "n2" else "n2"
            put_pod(api, "b", "c", nodeSelector={"at": other})
            put_node(api, other, {"at": other})
            await until("b bound elsewhere", lambda: node_of(api, "b") == other)


async def test_malformed_objects_of_other_servers_are_left_alone() -> None:
    async with playing() as api:
        world(api)
        api.put(RESOURCESLICES, {"metadata": {"name": "broken"}, "spec": {"driver": 5}})
        api.put(RESOURCESLICES, {"metadata": {"name": "empty"}})
        api.put(DEVICECLASSES, {"metadata": {"name": "odd"}, "spec": {"selectors": [5]}})
        api.put(RESOURCESLICEPATCHES, {"metadata": {"name": "odd"}, "spec": {}})
        api.put(
            RESOURCECLAIMS, {"metadata": {"name": "odd", "namespace": "ns"}, "spec": {"devices": {"requests": [7]}}}
        )
        put_pod(api, "odd", "odd")
        put_claim(api, "c")
        put_pod(api, "p", "c")
        async with Life(api):
            await until("p bound", lambda: node_of(api, "p"))
            await until("the odd one is told", lambda: "wrong shape" in says(api, "odd"))


async def test_a_node_that_goes_is_forgotten() -> None:
    async with playing() as api:
        world(api)
        put_claim(api, "c")
        async with Life(api):
            api.drop(NODES, "n2")
            put_pod(api, "p", "c")
            await until("p bound", lambda: node_of(api, "p") == "n1")


async def test_an_extended_resource_is_backed_by_a_class() -> None:
    async with playing() as api:
        world(api, nodes=2, each=2)
        put_extended_class(api)
        put_pod(api, "p", containers=asking(2))
        async with Life(api) as life:
            await until("p bound", lambda: node_of(api, "p"))
            (claim,) = api.objects["resourceclaims"].values()
            name = meta(claim)["name"]
            assert name.startswith("p-extended-resources-")
            assert len(held(api, name)) == 2
            assert the(api, PODS, "p")["status"]["extendedResourceClaimStatus"] == {
                "resourceClaimName": name,
                "requestMappings": [
                    {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
                ],
            }
            put_pod(api, "q", containers=asking(3))
            await until("q waits", lambda: "2 cannot allocate all claims" in says(api, "q"))
            assert len(life.scheduler._devices.ledger) == 2


async def test_a_node_that_has_the_resource_itself_needs_no_claim_and_a_class_wakes_who_waits() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_pod(api, "p", containers=asking())
        async with Life(api):
            await until("p waits", lambda: f"1 Insufficient {GPU}" in says(api, "p"))
            put_extended_class(api)
            await until("p bound", lambda: node_of(api, "p"))
            status = {"allocatable": {"pods": "9", GPU: "1"}, "conditions": [{"type": "Ready", "status": "True"}]}
            api.put(NODES, {"metadata": {"name": "n9"}, "status": status})
            put_pod(api, "q", containers=asking())
            await until("q bound", lambda: node_of(api, "q") == "n9")
            assert len(api.objects["resourceclaims"]) == 1


@pytest.mark.parametrize("when", ["create", "claims", "pods", "bind"])
async def test_killed_while_a_claim_is_made_for_extended_resources(when: str) -> None:
    async with playing() as api:
        world(api, nodes=1, each=1)
        put_extended_class(api)
        put_pod(api, "p", containers=asking())
        failing: Callable[[str, Resource], bool] = {
            "create": lambda verb, resource: verb == "create" and resource is RESOURCECLAIMS,
            "claims": lambda verb, resource: verb == "update" and resource is RESOURCECLAIMS,
            "pods": lambda verb, resource: verb == "patch" and resource is PODS,
            "bind": lambda verb, resource: verb == "create" and resource is PODS,
        }[when]
        met: list[str] = []

        def lost(verb: str, resource: Resource, name: str) -> Exception | None:
            """The answer is lost, then the process."""
            if failing(verb, resource):
                met.append(verb)
                return away()
            return None

        api.fault, life = lost, Life(api)
        if when == "create":
            api.fault, api.lose = api.lose, lost
        async with life:
            await until("the point is reached", lambda: met)
        api.fault = api.lose = lambda verb, resource, name: None
        async with Life(api):
            freed = asyncio.create_task(finish_deletions(api))
            await until("p bound", lambda: node_of(api, "p"))
            await until("one claim is left", lambda: len(api.objects["resourceclaims"]) == 1)
            freed.cancel()
        (claim,) = api.objects["resourceclaims"].values()
        status = the(api, PODS, "p")["status"]["extendedResourceClaimStatus"]
        assert (status["resourceClaimName"], held(api, meta(claim)["name"])) == (meta(claim)["name"], ["n1/dev-0"])


FIGURES = (
    'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0',
    'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} [1-9]',
    'scheduler_scheduling_attempt_duration_seconds_count{profile="default-scheduler",result="scheduled"} 1.0',
    'scheduler_pending_pods{queue="unschedulable"} 1.0',
    'nodeplane_scheduler_claim_allocations_total{result="done"} 1.0',
    "nodeplane_scheduler_allocated_devices 1.0",
    f'nodeplane_scheduler_pool_devices{{driver="{DRIVER}",pool="n1"}} 1.0',
    f'nodeplane_scheduler_pool_devices_in_use{{driver="{DRIVER}",pool="n1"}} 1.0',
    'nodeplane_dra_cel_evaluations_total{for="claims"} [1-9]',
)


def has_figure(life: Life, line: str) -> bool:
    return re.search(line, generate_latest(life.registry).decode()) is not None


"""As patterns: whatever changes meanwhile may have a pod tried again."""


async def test_figures_have_upstreams_names() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_claim(api, "c", f'device.driver == "{DRIVER}"')
        put_pod(api, "p", "c")
        async with Life(api) as life:
            await until("p bound", lambda: node_of(api, "p"))
            put_claim(api, "d")
            put_pod(api, "q", "d")
            for line in FIGURES:
                await until(line, partial(has_figure, life, line))


async def test_pools_with_figures_of_their_own_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_POOLS", 2)
    monkeypatch.setattr(metrics, "MAX_DRIVERS", 1)
    async with playing() as api:
        world(api, nodes=4, each=3)
        put_slice(api, "n1", *devices(5), driver="z.example.com")
        async with Life(api) as life:
            others = f'nodeplane_scheduler_pool_devices{{driver="{DRIVER}",pool="(others)"}} 6.0'
            await until("summed up", lambda: others in generate_latest(life.registry).decode())
            assert generate_latest(life.registry).decode().count("nodeplane_scheduler_pool_devices{") == 3


async def test_an_api_that_knows_no_claims_is_no_reason_to_wait() -> None:
    class Older(MemoryApi):
        async def list(self, resource: Resource, namespace: str = "", **query: Any) -> Object:
            if resource.group == "resource.k8s.io":
                raise ApiError(404, {"message": "the server could not find the requested resource"})
            return await super().list(resource, namespace, **query)

    api = Older()
    put_node(api, "n1")
    put_pod(api, "p")
    async with Life(api):
        await until("p bound", lambda: node_of(api, "p"))


@pytest.mark.scenario("S32")
async def test_a_node_with_the_better_alternative_is_preferred() -> None:
    async with playing() as api:
        put_class(api)
        for at in range(5):
            put_node(api, f"n{at}")
            size = "large" if at == 1 else "small"
            put_slice(api, f"n{at}", {"name": "dev-0", "attributes": {"size": {"string": size}}})
        wants = [
            {"name": each, "deviceClassName": "gpu", "selectors": [{"cel": {"expression": f'{SIZE} == "{each}"'}}]}
            for each in ("large", "small")
        ]
        spec = {"devices": {"requests": [{"name": "r", "firstAvailable": wants}]}}
        for name in "cd":
            api.put(RESOURCECLAIMS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})
        async with Life(api):
            put_pod(api, "p", "c")
            await until("p bound", lambda: node_of(api, "p"))
            put_pod(api, "q", "d")
            await until("q bound", lambda: node_of(api, "q"))
        assert node_of(api, "p") == "n1"
        assert node_of(api, "q") != "n1"
        result = the(api, RESOURCECLAIMS, "d")["status"]["allocation"]["devices"]["results"][0]
        assert result["request"] == "r/small"


SIZE = f'device.attributes["{DRIVER}"].size'


async def test_admin_access_takes_nothing_from_others_after_a_restart_either() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_claim(api, "look", adminAccess=True)
        put_pod(api, "doctor", "look")
        async with Life(api):
            await until("the doctor is bound", lambda: node_of(api, "doctor"))
        async with Life(api):
            put_claim(api, "c")
            put_pod(api, "p", "c")
            await until("p bound", lambda: node_of(api, "p"))
        assert held(api, "look") == held(api, "c") == ["n1/dev-0"]


async def test_permanent_api_rejections_are_reported() -> None:
    async with playing() as api:
        world(api, nodes=1)
        put_claim(api, "c")
        put_pod(api, "p", "c")
        full = ApiError(422, {"message": "status.reservedFor: Too many: 257: must have at most 256 items"})
        api.fault = lambda verb, resource, name: full if resource is RESOURCECLAIMS else None
        async with Life(api) as life:
            await until("p is told", lambda: "at most 256 items" in says(api, "p"))
            await until("nothing stays promised", lambda: len(life.scheduler._devices.ledger) == 0)


def put_impossible(api: MemoryApi, number: int) -> None:
    """A claim whose search takes longer than its time: no two choices leave the same counters."""
    pool = {"name": "hard", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": "n1", "pool": pool}
    shared = [{"name": "g", "counters": {"slots": {"value": str(12 * 2**50)}}}]
    made = [
        {
            "name": f"hard-{at}",
            "attributes": {"hard": {"bool": True}},
            "consumesCounters": [{"counterSet": "g", "counters": {"slots": {"value": str(2**50 + 2**at)}}}],
        }
        for at in range(40)
    ]
    api.put(RESOURCESLICES, {"metadata": {"name": "hard-sets"}, "spec": {**common, "sharedCounters": shared}})
    api.put(RESOURCESLICES, {"metadata": {"name": "hard-devices"}, "spec": {**common, "devices": made}})
    for at in range(number):
        put_claim(api, f"hard-{at}", f"device.attributes['{DRIVER}'].?hard.orValue(false)", count=12)
        put_pod(api, f"hard-{at}", f"hard-{at}")


@pytest.mark.parametrize("descheduled", [False, True])
async def test_pods_beside_impossible_claims_are_scheduled_at_once(
    monkeypatch: pytest.MonkeyPatch, descheduled: bool
) -> None:
    """Also where the scheduler waits for a processor during their searches, which are short."""
    advance = Attempt.advance

    def advanced(self: Attempt, steps: int) -> bool | None:
        if descheduled and "easy" in self._options.claims[0].key:
            time.sleep(2 * device_fit.NODE_AT_ONCE_S)
        return advance(self, steps)

    monkeypatch.setattr(Attempt, "advance", advanced)
    async with playing() as api:
        world(api, nodes=1, each=20)
        put_impossible(api, 3)
        async with Life(api) as life:
            await until("searched", lambda: life.scheduler._devices.fit.searches >= 3)
            began = asyncio.get_running_loop().time()
            for at in range(10):
                put_claim(api, f"easy-{at}", f"!device.attributes['{DRIVER}'].?hard.orValue(false)")
                put_pod(api, f"easy-{at}", f"easy-{at}")
            await until("easy pods are bound", lambda: all(node_of(api, f"easy-{at}") for at in range(10)))
            assert asyncio.get_running_loop().time() - began < 8
            assert not any(node_of(api, f"hard-{at}") for at in range(3))


async def test_impossible_claim_after_its_time_reports_it_once_and_is_not_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_fit, "SEARCH_TIMEOUT_S", 0.3)
    async with playing() as api:
        world(api, nodes=1, each=1)
        put_impossible(api, 1)
        async with Life(api) as life:
            await until("reported", lambda: "timed out trying to allocate devices" in says(api, "hard-0"))
            searches = life.scheduler._devices.fit.searches
            for _ in range(4):
                await heard()
            assert life.scheduler._devices.fit.searches == searches
            put_slice(api, "n1", *devices(1), driver="other.example.com")
            await until("searched", lambda: life.scheduler._devices.fit.searches > searches)


@pytest.mark.parametrize(("verb", "resource"), [("update", RESOURCECLAIMS), ("create", PODS)])
async def test_binding_cycle_with_an_unknown_exception_fails_its_attempt_only(
    verb: str, resource: Resource, caplog: pytest.LogCaptureFixture
) -> None:
    """The write of a claim and of a binding."""
    api, bugs = MemoryApi(), [ZeroDivisionError("a bug"), ZeroDivisionError("a bug")]
    FAILURES.clear()
    api.fault = lambda *write: bugs.pop() if write[:2] == (verb, resource) and bugs else None
    world(api, nodes=1)
    put_claim(api, "c")
    put_pod(api, "p", "c")
    async with asyncio.timeout(30), Life(api):
        await until("bound", lambda: node_of(api, "p"))
        put_pod(api, "q")
        await until("another one bound", lambda: node_of(api, "q"))
    assert FAILURES["binding cycle"] == 2
    assert "task binding cycle ns/p failed: ZeroDivisionError: a bug" in caplog.text
