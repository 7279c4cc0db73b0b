"""The example driver and its script against the node's own side, both in this process; the API is a dictionary."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actors.devices.dra.errors import DriverFailed, DriverMissing
from actors.simulator.driver.claims import Claims
from actors.simulator.driver.health import HealthBoard
from actors.simulator.driver.options import DriverOptions
from actors.simulator.driver.process import ScriptPlayer
from actors.simulator.driver.script import DriverScript
from actors.simulator.driver.server import DriverServer
from actors.simulator.engine.faults import Faults
from actors.simulator.engine.playback import die_in_calls
from protocols.kubeclient.client import ApiError
from protocols.messages.devices import ClaimReference, PrepareClaims, PreparedClaims
from protocols.process.scripts import CallFault, Seconds, parse_script
from tests.support.device_node import until
from tests.support.dra_lab import GPU, DraLab, asks, claim, running_lab
from tests.support.waiting import until_async

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


def driver_options(lab: DraLab, **given: Any) -> DriverOptions:
    return DriverOptions(DriverScript(driver=GPU, **given), "n1", lab.root, lab.root / "cdi", Path("/none"))


async def test_the_driver_plays_its_script_and_the_node_reports_it() -> None:
    async with running_lab() as lab:
        script, said, api = parse_script("s", SCRIPT, DriverScript), list[str](), Api()
        options = driver_options(lab, devices=2, health_timeout=1)
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
        assert reply.cdi_devices == {"c": (f"{GPU}/device=a-uid-gpu-0-s-1",)}
        (held,) = lab.shown["p"].containers["c"][0].devices
        assert (held.share_id, held.requests) == ("s-1", ("r",))
        assert [path.name for path in (lab.root / "cdi").iterdir()] == [f"{GPU}-a-uid.json"]
        director = ScriptPlayer(script, server, board, Slices(), faults, said.append)  # type: ignore[arg-type]  # the list
        device = f"{GPU}/n1/gpu-0"
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


async def test_a_driver_that_dies_in_a_call_serves_again_when_its_fault_says_so() -> None:
    async with running_lab() as lab:
        options, api = driver_options(lab), Api()
        api.claims["a"] = allocated("a-uid", "gpu-0")
        board = HealthBoard(options.all_devices())
        faults = Faults({"NodePrepareResources": (CallFault(crash=True, restart=Seconds(0.5)),)})
        server = DriverServer(options, Claims(options, api), board, faults, list[str]().append)  # type: ignore[arg-type]  # the dictionary
        await server.start()
        await lab.connected(GPU)
        deaths = asyncio.create_task(die_in_calls(faults, server.cut, server.start))
        assert "code = Unavailable" in await failure(lab, "a")
        replies: list[PreparedClaims] = []

        async def prepared() -> bool:
            """As the pod worker, which asks until the driver has registered again."""
            with suppress(DriverFailed, DriverMissing):
                replies.append(await lab.prepare(asks("p", claim("a"))))
            return bool(replies)

        await until_async("the claim is prepared", prepared)
        (reply,) = replies
        assert reply.cdi_devices == {"c": (f"{GPU}/device=a-uid-gpu-0-s-1",)}
        deaths.cancel()
        await lab.unprepare("p")
        await server.stop()


SHARES = [f"{at}f9c2a10-7d1e-4c55-8a43-0c6b0f2f4e1d" for at in range(4)]


def shares(uid: str, *ids: str) -> dict[str, Any]:
    """A claim whose requests r0, r1, ... have shares of gpu-0."""
    results = [
        {**SHARE, "request": f"r{at}", "shareID": id, "consumedCapacity": {"memory": f"{at + 1}Gi"}}
        for at, id in enumerate(ids)
    ]
    return {"metadata": {"uid": uid}, "status": {"allocation": {"devices": {"results": results}}}}


SHARE = {"driver": GPU, "pool": "n1", "device": "gpu-0"}


async def test_shares_of_a_device_are_prepared_kept_and_returned_one_by_one() -> None:
    async with running_lab() as lab:
        options = driver_options(lab, shared=True)
        api, board = Api(), HealthBoard(options.all_devices())
        api.claims = {"a": shares("a-uid", SHARES[0], SHARES[1]), "b": shares("b-uid", SHARES[2])}
        server = DriverServer(options, Claims(options, api), board, Faults({}), print)  # type: ignore[arg-type]  # the dictionary
        await server.start()
        await lab.connected(GPU)
        both = await lab.prepare(asks("p", claim("a"), claim("b")))
        names = [f"{GPU}/device=a-uid-gpu-0-0f9c2a10", f"{GPU}/device=a-uid-gpu-0-1f9c2a10"]
        assert both.cdi_devices == {"c": (*names, f"{GPU}/device=b-uid-gpu-0-2f9c2a10")}
        held = [(device.share_id, device.requests) for device in lab.shown["p"].containers["c"][0].devices]
        assert held == [(SHARES[0], ("r0",)), (SHARES[1], ("r1",))]
        made = json.loads((lab.root / "cdi" / f"{GPU}-a-uid.json").read_text())
        assert [device["containerEdits"]["env"][-1] for device in made["devices"]] == [
            "GPU_EXAMPLE_COM_GPU_0_SHARE_0F9C2A10=1Gi",
            "GPU_EXAMPLE_COM_GPU_0_SHARE_1F9C2A10=2Gi",
        ]
        one = PrepareClaims("q", "ns", "q", (claim("a"),), (ClaimReference("c", "a", "r1"),), True)
        assert (await lab.prepare(one)).cdi_devices == {"c": (names[1],)}, "of the request only"
        await lab.end_life()
        await lab.open()
        await lab.connected(GPU)
        known = await lab.prepare(asks("p", claim("a"), claim("b"), renew=False))
        assert known.cdi_devices == both.cdi_devices
        assert all(id in lab.checkpoint.read_text() for id in SHARES[:3])
        await lab.unprepare("p")
        assert [path.name for path in (lab.root / "cdi").iterdir()] == [f"{GPU}-a-uid.json"], "q uses it"
        await lab.unprepare("q")
        assert list((lab.root / "cdi").iterdir()) == []
        await server.stop()


async def failure(lab: DraLab, *names: str) -> str:
    try:
        await lab.prepare(asks("p", *map(claim, names)))
    except Exception as error:
        return str(error)
    return ""


FAULTS = """
devices: [{name: left}, {name: right}]
calls:
  NodePrepareResources:
  - claims: {a: {error: out of luck}, b: {skip: true}}
  - claims: {"*": {cdi: [v/k=$ID, v/k=all]}}
  NodeUnprepareResources: [{claims: {a: {error: still in use}}}]
versions: [v1beta1.DRAPlugin]
"""


async def test_a_fault_answers_for_each_claim_of_a_call() -> None:
    async with running_lab() as lab:
        script, api = parse_script("s", FAULTS.encode(), DriverScript), Api()
        options = driver_options(lab, devices=script.devices, versions=script.versions)
        api.claims = {"a": allocated("a-uid", "left"), "b": allocated("b-uid", "right")}
        board = HealthBoard(options.all_devices())
        faults = Faults({str(method): fault for method, fault in script.calls.items()})
        server = DriverServer(options, Claims(options, api), board, faults, print)  # type: ignore[arg-type]  # the dictionary
        await server.start()
        await lab.connected(GPU)
        assert lab.registered.items[GPU].version == "v1beta1.DRAPlugin"
        both = asks("p", claim("a"), claim("b"))
        assert "failed for ResourceClaim a: out of luck" in await failure(lab, "a", "b")
        reply = await lab.prepare(both)
        assert reply.cdi_devices == {"c": ("v/k=left", "v/k=all", "v/k=right")}
        with pytest.raises(DriverFailed, match="failed for ResourceClaim a: still in use"):
            await lab.unprepare("p")
        await lab.unprepare("p")
        await server.stop()
