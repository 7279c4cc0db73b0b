"""Pods get devices, keep them, and give them back, over real sockets (scenarios S11-S18, S25 of the device facts)."""

import asyncio

import pytest

from protocols.bus import Aborted, BusError, FailedPrecondition
from protocols.messages.devices import AdmitPod, ContainerRequest, GrantedDevice, GrantedMount
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from tests.support.device_node import RESOURCE, running_node, until

ONLY = {"actors": ("devices",)}


@pytest.mark.scenario("S11")
async def test_the_plugins_answer_becomes_the_containers_grant() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a")
        plugin.answer = pb.ContainerAllocateResponse(
            envs={"K": "v"},
            mounts=[pb.Mount(container_path="/c", host_path="/h", read_only=True)],
            devices=[pb.DeviceSpec(container_path="/dev/c", host_path="/dev/h", permissions="rw")],
            annotations={"n": "o"},
            cdi_devices=[pb.CDIDevice(name="example.com/gpu=a")],
        )
        await plugin.start()
        await node.settled(1, 1)
        grant = (await node.admit("p1", main={RESOURCE: 1})).grants["main"]
        assert grant.envs == {"K": "v"}
        assert grant.mounts == (GrantedMount("/c", "/h", True),)
        assert grant.devices == (GrantedDevice("/dev/c", "/dev/h", "rw"),)
        assert (grant.annotations, grant.cdi_devices) == ({"n": "o"}, ("example.com/gpu=a",))
        assert [list(item.devices_ids) for item in plugin.called("allocate")[0].container_requests] == [["a"]]


@pytest.mark.scenario("S12")
async def test_asking_again_gives_the_same_without_a_call() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        first = await node.admit("p1", main={RESOURCE: 1}, helper={})
        assert await node.admit("p1", main={RESOURCE: 1}, helper={}) == first
        assert len(plugin.called("allocate")) == 1
        assert set(first.grants) == {"main", "helper"}
        with pytest.raises(FailedPrecondition, match=f'changed request for resource "{RESOURCE}" from 1 to 2'):
            await node.admit("p1", main={RESOURCE: 2})


@pytest.mark.scenario("S18")
async def test_too_few_devices_refuse_the_whole_pod() -> None:
    async with running_node(**ONLY) as node:
        await node.stub().with_devices("a", "b", "c").start()
        await node.settled(3, 3)
        with pytest.raises(FailedPrecondition) as refused:
            await node.admit("p1", one={RESOURCE: 1}, two={RESOURCE: 3})
        assert refused.value.details == {"reason": "UnexpectedAdmissionError"}
        assert f"requested number of devices unavailable for {RESOURCE}. Requested: 3, Available: 2" in str(
            refused.value
        )
        await node.admit("p2", main={RESOURCE: 3})
        await node.holds({"p2": ["a", "b", "c"]})


async def test_no_healthy_device_and_failing_plugin_refuse() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a").start()
        await node.settled(1, 1)
        plugin.fail["allocate"] = "out of luck"
        with pytest.raises(FailedPrecondition, match=r"Allocate failed due to .*out of luck, which is unexpected"):
            await node.admit("p1", main={RESOURCE: 1})
        plugin.fail.clear()
        plugin.set_health(a="Unhealthy")
        await node.settled(0, 1)
        with pytest.raises(FailedPrecondition, match=f"no healthy devices present; .* unhealthy devices {RESOURCE}"):
            await node.admit("p2", main={RESOURCE: 1})
        await node.holds({})


async def test_a_hung_plugin_delays_only_its_own_pod() -> None:
    async with running_node(**ONLY) as node:
        hung = await node.stub().with_devices("a").start()
        await node.stub("example.com/nic", "nic.sock").with_devices("n1").start()
        await node.settled(1, 1)
        await node.settled(1, 1, "example.com/nic")
        hung.hang.clear()
        waiting = asyncio.create_task(node.admit("stuck", main={RESOURCE: 1}))
        await until("the call", lambda: hung.called("allocate"))
        await node.admit("quick", main={"example.com/nic": 1}, timeout=40)
        await node.release("stuck")  # the pod is deleted meanwhile: its device is free at once
        with pytest.raises(Aborted, match="released meanwhile"):
            await waiting
        hung.hang.set()
        await node.admit("next", main={RESOURCE: 1})
        await node.holds({"quick": ["n1"], "next": ["a"]})


@pytest.mark.scenario("S15")
async def test_preference_is_asked_and_foreign_ids_are_passed_over() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a", "b", "c", "d")
        plugin.options = pb.DevicePluginOptions(get_preferred_allocation_available=True)
        plugin.preferred = ["d", "alien", "c"]
        await plugin.start()
        await node.settled(4, 4)
        await node.admit("p1", main={RESOURCE: 3})
        [request] = plugin.called("preferred")
        [wanted] = request.container_requests
        assert (list(wanted.available_deviceIDs), wanted.allocation_size) == (["a", "b", "c", "d"], 3)
        await node.holds({"p1": ["a", "c", "d"]})
        plugin.fail["preferred"] = "no idea"
        with pytest.raises(FailedPrecondition, match=r"device plugin GetPreferredAllocation rpc failed.*no idea"):
            await node.admit("p2", main={RESOURCE: 1})


async def test_devices_come_from_one_numa_node_where_they_fit() -> None:
    async with running_node(**ONLY) as node:
        numa = {"a": 0, "b": 1, "c": 0, "d": 1}
        await node.stub().with_devices(*numa, numa=numa).start()
        await node.settled(4, 4)
        await node.admit("p1", main={RESOURCE: 1})
        await node.admit("p2", main={RESOURCE: 2})
        await node.holds({"p1": ["a"], "p2": ["b", "d"]})


@pytest.mark.scenario("S13")
async def test_init_containers_pass_their_devices_on() -> None:
    async with running_node(**ONLY) as node:
        await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        kinds = (("setup", "init"), ("proxy", "sidecar"), ("main", "app"))
        asked = tuple(ContainerRequest(name=name, kind=kind, resources={RESOURCE: 1}) for name, kind in kinds)
        await node.admit_pod(AdmitPod(uid="p1", namespace="default", name="p1", containers=asked))
        [pod] = await until("the pod", lambda: list(node.allocations.items.values()))
        given = {item.name: item.devices[0].id for item in pod.containers}
        assert given["setup"] == given["proxy"] != given["main"]


async def test_pre_start_is_called_for_plugins_that_want_it() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a")
        plugin.options = pb.DevicePluginOptions(pre_start_required=True)
        await plugin.start()
        await node.settled(1, 1)
        await node.admit("p1", main={RESOURCE: 1}, other={})
        await node.pre_start("p1", "main")
        await node.pre_start("p1", "other")
        assert [list(item.devices_ids) for item in plugin.called("pre_start")] == [["a"]]
        plugin.fail["pre_start"] = "cold"
        with pytest.raises(BusError, match=r"device plugin PreStartContainer rpc failed with err: .*cold"):
            await node.pre_start("p1", "main")


async def test_reconcile_releases_every_pod_that_is_not_named() -> None:
    async with running_node(**ONLY) as node:
        await node.stub().with_devices("a", "b", "c").start()
        await node.settled(3, 3)
        for uid in ("p1", "p2", "p3"):
            await node.admit(uid, main={RESOURCE: 1})
        await node.reconcile("p2", "unknown")
        await until("two releases", lambda: node.held() == {"p2": ["b"]})
        await node.release("p2")
        await node.release("p2")
        await until("no pod", lambda: node.held() == {})


async def test_chaos_overrides_a_devices_health_also_after_a_crash() -> None:
    async with running_node(**ONLY) as node:
        await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        with pytest.raises(BusError, match="no device z"):
            await node.chaos("z", "unhealthy")
        with pytest.raises(BusError, match="does not exist"):
            await node.chaos("a", "poorly")
        await node.chaos("a", "unhealthy")
        await node.settled(1, 2)
        await node.restart("devices")
        again = await node.stub(endpoint="again.sock").with_devices("a", "b").start_soon()
        await node.settled(1, 2)
        await node.chaos("a", "")
        await node.settled(2, 2)
        assert again.devices
