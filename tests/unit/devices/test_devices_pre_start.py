"""PreStartContainer of a pod that is released while its plugin is awaited."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.devices.manager import DeviceManager
from actors.devices.model.errors import PreStartFailed
from protocols.bus import Call
from protocols.lifecycle.devices.ledger import Ledger
from protocols.lifecycle.devices.types import PodRecord
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation, PreStart

GPU = "example.com/gpu"


async def test_pre_start_of_a_pod_released_meanwhile_has_no_devices() -> None:
    main = ContainerAllocation("main", devices=(AllocatedDevice(GPU, "a"),))
    ledger = Ledger([PodRecord(PodAllocation("p1", "default", "p1", (main,)))])

    async def wait_registered(resource: str) -> None:
        ledger.release("p1")

    resource = SimpleNamespace(options=SimpleNamespace(pre_start=True))
    manager = DeviceManager.__new__(DeviceManager)
    manager._ledger = ledger
    manager._inventory = cast("Any", SimpleNamespace(resources={GPU: resource}))
    manager.plugins = cast("Any", SimpleNamespace(wait_registered=wait_registered))
    with pytest.raises(PreStartFailed, match="no devices found allocated in local cache for pod p1"):
        await manager.pre_start(PreStart("p1", "main", (GPU,)), Call("pre-start", "1", 1.0))
