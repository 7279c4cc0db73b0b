"""A driver's connection that is closed while somebody still wants to call the driver."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from actors.devices.dra.driver_instance import DriverInstance, DriverInstanceOptions
from actors.devices.dra.errors import DriverFailed
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import DraLimits
from protocols.lifecycle.devices.types import ClaimInfo


async def test_call_after_close_fails_and_can_be_repeated(tmp_path: Path) -> None:
    options = DriverInstanceOptions(
        driver="gpu.example.com",
        endpoint=str(tmp_path / "dra.sock"),
        service="v1.DRAPlugin",
        health="",
        number=1,
        limits=DraLimits(),
        metrics=DraMetrics(CollectorRegistry(), lambda: {}),
        on_changed=lambda: None,
    )
    instance = DriverInstance(options)
    await instance.close()
    for call in (instance.prepare, instance.unprepare):
        outcome = await call([ClaimInfo("ns", "c", "u-1")], "ns/p")
        assert isinstance(outcome.error, DriverFailed)
        assert not outcome.done
