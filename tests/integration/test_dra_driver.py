"""The example driver and its script against the node's own side, both in this process; the API is a dictionary."""

from pathlib import Path
from typing import Any

from actors.simulator.driver.claims import Claims
from actors.simulator.driver.health import HealthBoard
from actors.simulator.driver.options import DriverOptions
from actors.simulator.driver.process import DriverParts, ScriptPlayer
from actors.simulator.driver.script import DriverScript
from actors.simulator.driver.server import DriverServer
from actors.simulator.engine.faults import Faults
from actors.simulator.engine.scripts import parse_script
from protocols.kubeclient.client import ApiError
from tests.support.device_node import until
from tests.support.dra_lab import GPU, DraLab, asks, claim, running_lab

SCRIPT = b"""
driver: gpu.example.com
devices: 2
healthTimeout: 1
calls:
  NodePrepareResources: {error: cold start, times: 1}
steps:
  - {at: 1s, unhealthy: [gpu-0], message: ECC}
  - {at: 2s, healthy: [gpu-0]}
  - {at: 3s, silent: true}
  - {at: 4s, silent: false, unhealthy: [gpu-0], message: loud again}
  - {at: 5s, crash: true}
  - {at: 6s, register: true, healthy: [gpu-0]}
"""
SEEN = [
    ("Unhealthy", "ECC"),
    ("Healthy", ""),
    ("Unknown", ""),
    ("Unhealthy", "loud again"),
    ("Unknown", ""),
    ("Healthy", ""),
]
"""After each step; the silence is noticed after healthTimeout."""


class Api:
    """As much of a client as the driver uses for claims."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}

    async def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any]:
        if name not in self.claims:
            raise ApiError(404, {"reason": "NotFound", "message": "not there"})
        return self.claims[name]


class Slices:
    def offer(self, devices: list[Any]) -> None:
        self.devices = devices


def allocated(uid: str, device: str) -> dict[str, Any]:
    result = {"request": "r/sub", "driver": GPU, "pool": "n1", "device": device, "shareID": "s-1"}
    return {"metadata": {"uid": uid}, "status": {"allocation": {"devices": {"results": [result]}}}}


async def test_the_driver_plays_its_script_and_the_node_reports_it() -> None:
    async with running_lab() as lab:
        script, said, api = parse_script("s", SCRIPT, DriverScript), list[str](), Api()
        options = DriverOptions(GPU, 2, "n1", lab.root, lab.root / "cdi", Path("/none"), health_timeout=1)
        board = HealthBoard(options.all_devices())
        faults = Faults({str(method): fault for method, fault in script.calls.items()})
        server = DriverServer(options, Claims(options, api), board, faults, said.append)  # type: ignore[arg-type]  # the dictionary
        await server.start()
        await lab.connected(GPU)
        api.claims["a"] = allocated("other", "gpu-0")
        wrong = await failure(lab, "a")
        assert "cold start" in wrong
        assert "is another one now, with uid other" in await failure(lab, "a")
        api.claims["a"] = allocated("a-uid", "gpu-9")
        assert "this driver has no device gpu-9 in a pool n1" in await failure(lab, "a")
        api.claims["a"] = allocated("a-uid", "gpu-0")
        reply = await lab.prepare(asks("p", claim("a")))
        assert reply.cdi_devices == {"c": (f"{GPU}/device=a-uid-gpu-0",)}
        (held,) = lab.shown["p"].containers["c"][0].devices
        assert (held.share_id, held.requests) == ("s-1", ("r",))
        assert [path.name for path in (lab.root / "cdi").iterdir()] == [f"{GPU}-a-uid.json"]
        cast = DriverParts(script, server, board, Slices(), faults, said.append)  # type: ignore[arg-type]  # the list
        director, device = ScriptPlayer(cast), f"{GPU}/n1/gpu-0"
        for step, (health, message) in zip(script.steps, SEEN, strict=True):
            await director.perform(step)
            await lab.says(device, health, message)
        await until("connected again", lambda: lab.registered.items[GPU].connected)
        del api.claims["a"]
        await lab.unprepare("p")
        assert list((lab.root / "cdi").iterdir()) == []
        await server.stop()
        assert "crashes" in said
        assert not options.socket.exists()


async def failure(lab: DraLab, name: str) -> str:
    try:
        await lab.prepare(asks("p", claim(name)))
    except Exception as error:
        return str(error)
    return ""
