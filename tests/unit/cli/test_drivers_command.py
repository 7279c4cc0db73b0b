"""`nodeplane devices --drivers`: the devices of claims, and why one is Unknown."""

import pytest

from protocols.messages.devices import (
    ClaimDevice,
    ContainerAllocation,
    DeviceHealth,
    DraDriver,
    PodAllocation,
    PreparedClaim,
)
from supervisor.client.drivers import drivers_view_of

NAME = "gpu.example.com/pool/with/slashes/gpu-0"
SERVING = DraDriver("gpu.example.com", True, "v1.DRAPlugin", "v1.NodeHealth", ("a.sock",))
SILENT = DraDriver("gpu.example.com", False, endpoints=("a.sock",))


def pods() -> dict[str, PodAllocation]:
    device = ClaimDevice(driver="gpu.example.com", pool="pool/with/slashes", device="gpu-0")
    claim = PreparedClaim(uid="c1", namespace="default", name="claim", devices=(device,))
    return {"u1": PodAllocation("u1", "default", "p1", (ContainerAllocation("main", claims=(claim,)),))}


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        (None, "has not registered since the device manager started"),
        (SILENT, "is registered and does not answer"),
        (DraDriver("gpu.example.com", False), "is gone"),
        (DraDriver("gpu.example.com", True, endpoints=("a.sock",)), "serves no health service"),
        (SERVING, "reports no health of it"),
    ],
)
@pytest.mark.parametrize("published", [True, False])
def test_device_unknown_has_a_reason(driver: DraDriver | None, why: str, published: bool) -> None:
    health = {NAME: DeviceHealth("", NAME, "Unknown")} if published else {}
    view = drivers_view_of({driver.name: driver} if driver else {}, health, pods())
    assert [(row.device, row.health, row.claim, row.pods) for row in view.devices] == [
        (NAME, "Unknown", "default/claim", ("default/p1",))
    ]
    assert why in view.devices[0].message


@pytest.mark.parametrize(
    ("health", "message"), [("Unknown", "link lost"), ("Unknown", "chaos"), ("Healthy", ""), ("Unhealthy", "")]
)
def test_device_reported_keeps_its_message(health: str, message: str) -> None:
    view = drivers_view_of({SERVING.name: SERVING}, {NAME: DeviceHealth("", NAME, health, message)}, pods())
    assert (view.devices[0].health, view.devices[0].message) == (health, message)
