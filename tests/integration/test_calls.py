"""`nodeplane calls` beside real device plugins and drivers: what was said, what was answered, what came of it."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import grpc.aio
import msgspec
import pytest
import pytest_asyncio

from protocols.bus import FailedPrecondition
from protocols.messages import devices as messages
from protocols.messages.calls import CallRecord
from protocols.messages.devices import (
    AdmitPod,
    ClaimResult,
    ContainerRequest,
    Empty,
    PodClaim,
    PrepareClaims,
    PreparedClaims,
    UnprepareClaims,
)
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire import drahealth_v1_pb2 as health
from protocols.wire.plugins import HEALTH_V1
from supervisor.base.errors import NotRunning
from supervisor.calls.client import CallQuery, CallReader, read_calls
from tests.support.device_node import RESOURCE, DeviceNode, running_node
from tests.support.stub_driver import StubDriver, told_health
from tests.support.stub_plugin import device
from tests.support.waiting import until_async

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node() -> AsyncIterator[DeviceNode]:
    async with running_node(actors=("devices",)) as node:
        yield node


async def recorded(node: DeviceNode, method: str, peer: str = RESOURCE, **query: bool) -> list[CallRecord]:
    return [item for item in await read_calls(node.bus, CallQuery(peer, **query)) if item.method == method]


async def test_calls_of_a_plugin_show_registration_lists_and_allocation(node: DeviceNode) -> None:
    plugin = node.stub().with_devices("a", "b", numa={"a": 0})
    plugin.options = pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
    plugin.preferred = ["b", "alien"]
    mount = pb.Mount(container_path="/lib/x", host_path="/opt/x", read_only=True)
    plugin.answer = pb.ContainerAllocateResponse(
        envs={"TOKEN": "s3cret"}, mounts=[mount], cdi_devices=[{"name": "v/d=b"}]
    )
    await plugin.start()
    await node.settled(2, 2)
    plugin.set_health(a="Unhealthy")
    await node.settled(1, 2)
    plugin.set_health(a="Healthy")
    await node.settled(2, 2)
    await node.admit_pod(AdmitPod("u1", "default", "pod", (ContainerRequest("main", resources={RESOURCE: 1}),)))
    await node.pre_start("u1", "main")
    records = await read_calls(node.bus, CallQuery(RESOURCE))
    methods = ["Register", "GetDevicePluginOptions", *["ListAndWatch"] * 3]
    methods += ["GetPreferredAllocation", "Allocate", "PreStartContainer"]
    assert [record.method for record in records] == methods
    register, options, first, sick, _, preferred, allocate, pre_start = records
    assert options.reply == {"pre_start_required": True, "get_preferred_allocation_available": True}
    assert register.request == {"version": "v1beta1", "endpoint": "stub.sock", "resource_name": RESOURCE}
    assert (register.incoming, register.status, register.outcome) == (True, "OK", "registered")
    assert first.reply["added"] == [{"ID": "a", "health": "Healthy", "numa": [0]}, {"ID": "b", "health": "Healthy"}]
    assert sick.reply == {"devices": 2, "healthy": 1, "changed": [{"ID": "a", "health": "Unhealthy", "numa": [0]}]}
    assert sick.outcome == "capacity 2, allocatable 1"
    assert "not offered: alien" in preferred.outcome
    assert allocate.request == {"container_requests": [{"devices_ids": ["b"]}]}
    answer = allocate.reply["container_responses"][0]
    assert answer["envs"] == {"TOKEN": "(hidden)"}
    assert answer["mounts"] == [{"container_path": "/lib/x", "host_path": "/opt/x", "read_only": True}]
    assert answer["cdi_devices"] == [{"name": "v/d=b"}]
    assert (allocate.subject, allocate.deadline, allocate.status) == ("default/pod main", 30.0, "OK")
    assert 0 < allocate.seconds < 30
    assert pre_start.request == {"devices_ids": ["b"]}
    [shown] = await recorded(node, "Allocate", show_secrets=True)
    assert shown.reply["container_responses"][0]["envs"] == {"TOKEN": "s3cret"}
    assert "s3cret" not in node.log("devices")


async def test_calls_of_a_driver_show_registration_health_and_claims(node: DeviceNode) -> None:
    driver = StubDriver(node.layout.kubelet)
    driver.info.supported_versions.append(HEALTH_V1)
    driver.health = [told_health("dev-0")]
    await driver.start()
    try:
        await until_async("its health", lambda: recorded(node, "NodeWatchResources", driver.name))
        driver.report(told_health("dev-0", health.UNHEALTHY, message="hot"))
        await until_async("its report", lambda: reports_of(node, driver, 2))
        await prepare(node, "p1")
        driver.claim_errors["claim-p2"] = "no such device"
        with pytest.raises(FailedPrecondition):
            await prepare(node, "p2")
        await node.bus.call("devices", messages.UNPREPARE_CLAIMS, UnprepareClaims("p1"), Empty, timeout=20)
        records = await read_calls(node.bus, CallQuery(driver.name))
    finally:
        await driver.stop()
    info, notify, *rest = records
    assert (info.method, info.reply["name"], info.outcome) == ("GetInfo", driver.name, "accepted as DRAPlugin")
    assert (notify.method, notify.request) == ("NotifyRegistrationStatus", {"plugin_registered": True})
    first, sick = (item for item in rest if item.method == "NodeWatchResources")
    assert first.reply["changed"] == [{"pool_name": "n1", "device_name": "dev-0", "health": "Healthy"}]
    [change] = sick.reply["changed"]
    assert (change["health"], change["message"], change["before"]) == ("Unhealthy", "hot", "Healthy")
    done, failed, unprepared = (item for item in rest if item.method.startswith("Node") and item.request)
    assert done.request == {"claims": [{"namespace": "default", "uid": "claim-p1", "name": "claim-p1"}]}
    assert done.reply["claims"]["claim-p1"]["devices"][0]["cdi_device_ids"] == ["gpu.example.com/device=dev-0"]
    assert (done.subject, done.deadline, done.outcome) == ("default/p1", 45.0, "1 of 1 claim prepared")
    assert failed.reply == {"claims": {"claim-p2": {"error": "no such device"}}}
    assert failed.outcome.endswith("no such device: the pod waits, and the call is repeated")
    assert unprepared.outcome == "1 of 1 claim unprepared"


async def reports_of(node: DeviceNode, driver: StubDriver, count: int) -> bool:
    return len(await recorded(node, "NodeWatchResources", driver.name)) == count


async def prepare(node: DeviceNode, uid: str) -> None:
    result = ClaimResult(request="r", driver="gpu.example.com", pool="n1", device="dev-0")
    claim = PodClaim(entry="gpu", namespace="default", name=f"claim-{uid}", uid=f"claim-{uid}", results=(result,))
    request = PrepareClaims(uid, "default", uid, (claim,))
    await node.bus.call("devices", messages.PREPARE_CLAIMS, request, PreparedClaims, timeout=30)


async def test_calls_of_the_products_own_plugin_are_recorded(node: DeviceNode) -> None:
    node.plugin("--resource", "example.com/own", "--devices", "2")
    await node.settled(2, 2, "example.com/own")
    await node.admit("own", main={"example.com/own": 2})
    [allocate] = await recorded(node, "Allocate", "example.com/own", show_secrets=True)
    assert allocate.request == {"container_requests": [{"devices_ids": ["own-0", "own-1"]}]}
    assert allocate.reply["container_responses"][0]["envs"] == {"EXAMPLE_COM_OWN": "own-0,own-1"}


async def test_call_that_hangs_is_shown_as_pending_and_then_with_its_consequence(node: DeviceNode) -> None:
    plugin = await node.stub("example.com/slow", "slow.sock").with_devices("a").start()
    await node.settled(1, 1, "example.com/slow")
    plugin.hang.clear()
    reader = CallReader(node.bus, CallQuery("example.com/slow"))
    await reader.read()
    batches = reader.follow()
    pod = AdmitPod("slow", "default", "slow", (ContainerRequest("main", resources={"example.com/slow": 1}),))
    admission = asyncio.create_task(node.admit_pod(pod))
    async with asyncio.timeout(40):
        pending = await anext(batch.pending async for batch in batches if batch.pending)
        assert [(call.method, call.status, call.subject) for call in pending] == [("Allocate", "", "default/slow main")]
        plugin.fail["allocated"] = "no room"
        plugin.hang.set()
        [record] = await anext(batch.records async for batch in batches if batch.records)
        with pytest.raises(FailedPrecondition):
            await admission
    assert (record.status, record.error) == ("INTERNAL", "no room")
    assert record.outcome == "rpc error: code = Internal desc = no room: pod rejected"


async def test_record_survives_reconnecting_plugins_but_not_the_process(node: DeviceNode) -> None:
    plugin = await node.stub("example.com/back", "back.sock").with_devices("a").start()
    await node.settled(1, 1, "example.com/back")
    await plugin.stop()
    await node.settled(0, 1, "example.com/back")
    await plugin.start()
    await node.settled(1, 1, "example.com/back")
    reader = CallReader(node.bus, CallQuery("example.com/back"))
    records = (await reader.read()).records
    assert [item.status for item in records if item.method == "Register"] == ["OK", "OK"]
    [end] = [item for item in records if item.method == "ListAndWatch" and "Unknown" in item.outcome]
    assert "ListAndWatch ended" in end.error
    await node.restart("devices")
    # Its streams are back; the link for calls may be so a moment later.
    batch = await until_async("the record of its next life", reader.read, errors=(NotRunning,))
    assert (batch.restarted, [item for item in batch.records if item.number <= records[-1].number]) == (True, [])


async def test_rejected_registration_is_shown_under_the_name_it_used(node: DeviceNode) -> None:
    plugin = node.stub("no-domain", "odd.sock").with_devices("a")
    await plugin.serve()
    with pytest.raises(grpc.aio.AioRpcError):
        await plugin.register()
    [record] = await read_calls(node.bus, CallQuery("no-domain"))
    assert (record.method, record.status, record.request["resource_name"]) == ("Register", "UNKNOWN", "no-domain")
    assert record.outcome.endswith(": registration rejected")


async def test_answer_without_containers_rejects_the_pod(node: DeviceNode) -> None:
    plugin = await node.stub("example.com/empty", "empty.sock").with_devices("a").start()
    await node.settled(1, 1, "example.com/empty")
    plugin.answers = 0
    with pytest.raises(FailedPrecondition, match="no containers return"):
        await node.admit_pod(
            AdmitPod("empty", "default", "empty", (ContainerRequest("main", resources={"example.com/empty": 1}),))
        )
    [record] = await recorded(node, "Allocate", "example.com/empty")
    assert record.outcome == "answered 0 containers for a request of 1: pod rejected"


async def test_plugin_whose_first_list_is_too_long_serves_nothing(node: DeviceNode) -> None:
    name = "example.com/long"
    plugin = node.stub(name, "long.sock")
    plugin.devices = [device(f"device-{number}") for number in range(20_001)]
    await plugin.start()
    await until_async("its end", lambda: recorded(node, "ListAndWatch", name))
    [end] = await recorded(node, "ListAndWatch", name)
    assert end.error == "it lists 20001 devices, the limit is 20000"
    assert end.outcome == "no connection of this resource serves"


async def test_hostile_plugin_cannot_make_the_record_grow(node: DeviceNode) -> None:
    name = "example.com/hostile"
    plugin = node.stub(name, "hostile.sock")
    plugin.devices = [device(f"device-{number}") for number in range(10_000)]
    plugin.answer = pb.ContainerAllocateResponse(envs={f"V{number}": "x" * 4096 for number in range(512)})
    await plugin.start()
    await node.settled(10_000, 10_000, name)
    for _ in range(6):
        for item in plugin.devices:
            item.health = "Unhealthy" if item.health == "Healthy" else "Healthy"
        seen = len(await recorded(node, "ListAndWatch", name))
        plugin.change()
        await until_async("the next list", partial(more_than, node, name, seen))
    with pytest.raises(FailedPrecondition):
        await node.admit_pod(AdmitPod("big", "default", "big", (ContainerRequest("main", resources={name: 1}),)))
    records = await read_calls(node.bus, CallQuery(name, show_secrets=True))
    lists = [item for item in records if item.method == "ListAndWatch"]
    assert lists[-1].omitted["reply.changed"] == 10_000 - len(lists[-1].reply["changed"])
    [allocate] = [item for item in records if item.method == "Allocate"]
    assert allocate.outcome.startswith("allocation response of 2")
    assert max(len(msgspec.json.encode(item)) for item in records) < 64 << 10


async def more_than(node: DeviceNode, name: str, count: int) -> bool:
    return len(await recorded(node, "ListAndWatch", name)) > count
