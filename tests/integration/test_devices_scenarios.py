"""Scenarios of the device facts that need one node and little else, told one after another."""

import pytest

from protocols.bus import FailedPrecondition
from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from tests.support.device_node import RESOURCE, running_node, until

ONLY = {"actors": ("devices",)}


def pod(uid: str, *containers: tuple[str, str, int]) -> AdmitPod:
    requests = tuple(ContainerRequest(name, kind=kind, resources={RESOURCE: count}) for name, kind, count in containers)
    return AdmitPod(uid, "default", uid, requests)


@pytest.mark.scenario("S06", "S14", "S15")
async def test_sick_devices_init_containers_and_preferences() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a").start()
        await node.settled(1, 1)
        await node.admit_pod(pod("s14", ("setup", "init", 1), ("main", "app", 1)))  # both have the only device
        await node.holds({"s14": ["a"]})
        assert [list(item.container_requests[0].devices_ids) for item in plugin.called("allocate")] == [["a"], ["a"]]
        plugin.set_health(a="Unhealthy")  # S06: the pod goes on, and what is free afterwards is still sick
        await node.settled(0, 1)
        await node.holds({"s14": ["a"]})
        await node.release("s14")
        await until("free", lambda: node.held() == {})
        assert node.figures() == (0, 1)
        await plugin.stop()
        plugin.with_devices(*"abcdefgh", numa={id: at // 4 for at, id in enumerate("abcdefgh")})
        plugin.options = pb.DevicePluginOptions(get_preferred_allocation_available=True)
        plugin.preferred = ["h", "alien", "g"]  # S15: a foreign id, and one too few
        await plugin.start()
        await node.settled(8, 8)
        await node.admit_pod(pod("s15", ("setup", "init", 1), ("main", "app", 4)))
        first, second = (item.container_requests[0] for item in plugin.called("preferred"))
        assert (list(first.must_include_deviceIDs), first.allocation_size) == ([], 1)
        assert (list(second.must_include_deviceIDs), second.allocation_size) == (["h"], 4)
        assert len(second.available_deviceIDs) == 8
        held = await until("its devices", lambda: node.held().get("s15"))
        assert set(held) > {"g", "h"}
        assert len(held) == 4
        plugin.fail["preferred"] = "no idea"
        with pytest.raises(FailedPrecondition, match=r"GetPreferredAllocation rpc failed with err: .*no idea"):
            await node.admit_pod(pod("refused", ("main", "app", 1)))
