"""CDI files of claims as the example DRA driver writes them."""

from pathlib import Path
from typing import Any

from actors.runtime.operations.cdi_devices import CdiFiles
from actors.simulator.driver.claims import Claims
from actors.simulator.driver.options import DriverOptions
from actors.simulator.driver.script import DriverScript
from protocols.kube.meta import Object


class Api:
    """Answers with one claim."""

    def __init__(self, claim: Object) -> None:
        self._claim = claim

    async def get(self, *_: object) -> Object:
        return self._claim


def result(request: str, device: str, **more: Any) -> Object:
    return {"request": request, "driver": "gpu.example.com", "pool": "n", "device": device, **more}


async def test_device_that_two_requests_have_is_in_the_file_once(tmp_path: Path) -> None:
    results = [result("use", "gpu-0"), result("look", "gpu-0", adminAccess=True)]
    config = [
        {"source": "FromClaim", "requests": ["look"], "opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}
    ]
    allocation = {"devices": {"results": results, "config": config}}
    claim = {"metadata": {"uid": "u"}, "status": {"allocation": allocation}}
    script = DriverScript(driver="gpu.example.com")
    options = DriverOptions(script=script, node="n", kubelet=tmp_path, cdi=tmp_path, kubeconfig=None)
    prepared = await Claims(options, Api(claim)).prepare("ns", "c", "u")  # type: ignore[arg-type]  # answers get
    assert [item.request for item in prepared] == ["use", "look"]
    (found,) = CdiFiles([tmp_path]).find(sorted({item.cdi for item in prepared}))
    assert [variable.partition("=")[0] for variable in found.own.env or ()] == [
        "GPU_EXAMPLE_COM_GPU_0",
        "GPU_EXAMPLE_COM_CONFIG",
    ]
