"""Claims as node agents see them (scenarios S31 and S38 of the device facts)."""

from contextlib import suppress

from protocols.bus import FailedPrecondition
from protocols.messages.devices import PREPARE_CLAIMS, UNPREPARE_CLAIMS, Empty, PreparedClaims, UnprepareClaims
from protocols.wire import podresources_v1_pb2 as v1
from tests.support.device_node import DeviceNode, running_node, until
from tests.support.dra_lab import GPU, NIC, asks, claim
from tests.support.pod_resources_client import Agent
from tests.support.stub_driver import StubDriver, prepared


async def prepare(node: DeviceNode, name: str) -> PreparedClaims:
    """As podworker does: again and again while something is in the way."""
    pod = asks(name, claim("a", GPU, NIC), container="main")

    async def tried() -> PreparedClaims | None:
        try:
            return await node.bus.call("devices", PREPARE_CLAIMS, pod, PreparedClaims, timeout=40.0, idempotent=True)
        except FailedPrecondition:
            return None

    reply = await until("prepared", tried)
    assert isinstance(reply, PreparedClaims)
    return reply


def shown(pod: v1.PodResources) -> list[tuple[str, list[str]]]:
    """Device and its own CDI names, of the one claim of the one container."""
    (container,) = pod.containers
    return [
        (device.device_name, [item.name for item in device.cdi_devices])
        for held in container.dynamic_resources
        for device in held.claim_resources
    ]


async def test_a_claim_prepared_after_the_pod_is_published_once() -> None:
    async with running_node() as node:
        gpu, nic = StubDriver(node.layout.kubelet, GPU), StubDriver(node.layout.kubelet, NIC)
        gpu.devices["a-uid"] = [prepared(GPU, f"dev-{n}") for n in range(3)]
        gpu.devices["a-uid"][1].share_id = "share-1"
        nic.fail["prepare"] = "later"
        agent = Agent(node.layout.pod_resources_socket)
        try:
            watch = await agent.watch()
            await node.admit("p", main={})
            added = await watch.next()
            assert (added.action, shown(added.pod_resources[0])) == (added.ADDED, [])
            await gpu.start()
            await nic.start()
            await until("tried", lambda: attempt(node, nic, 20))
            nic.fail.clear()
            await prepare(node, "p")
            updated = await watch.next()
            assert updated.action == updated.UPDATED
            expected = [(f"dev-{n}", [f"{GPU}/device=dev-{n}"]) for n in range(3)]
            expected.append(("dev-0", [f"{NIC}/device=dev-0"]))
            assert shown(updated.pod_resources[0]) == expected
            devices = updated.pod_resources[0].containers[0].dynamic_resources[0].claim_resources
            assert [item.HasField("share_id") for item in devices] == [False, True, False, False]
            assert len(gpu.called("prepare")) == 1
            await node.restart("devices")
            (listed,) = await until("listed again", agent.list_all)
            assert shown(listed) == expected
            await prepare(node, "p")
            assert (len(gpu.called("prepare")), shown((await agent.list_all())[0])) == (2, expected)
            await node.bus.call("devices", UNPREPARE_CLAIMS, UnprepareClaims("p"), Empty, timeout=40.0)
            assert (gpu.uids("unprepare"), nic.uids("unprepare")) == ([["a-uid"]], [["a-uid"]])
            await node.release("p")
            deleted = await watch.next()
            assert deleted.action == deleted.DELETED
        finally:
            await agent.close()
            await gpu.stop()
            await nic.stop()


async def attempt(node: DeviceNode, nic: StubDriver, times: int) -> bool:
    """One more try; whether there were as many."""
    pod = asks("p", claim("a", GPU, NIC), container="main")
    with suppress(FailedPrecondition):
        await node.bus.call("devices", PREPARE_CLAIMS, pod, PreparedClaims, timeout=40.0)
    return len(nic.called("prepare")) >= times
