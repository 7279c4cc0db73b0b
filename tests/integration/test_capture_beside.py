"""`nodeplane capture --kubelet`: the record between kubelet, which the device manager plays, and plugin or driver."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.simulator.driver.claims import Claims
from actors.simulator.driver.health import HealthBoard
from actors.simulator.driver.options import DriverOptions
from actors.simulator.driver.script import ClaimAnswer, ClaimFault, DriverScript, DriverStep
from actors.simulator.driver.server import DriverServer
from actors.simulator.engine.faults import Faults
from protocols.bus import BusError
from protocols.messages.calls import CallRecord
from protocols.process.scripts import Seconds
from supervisor.base.errors import UsageError
from supervisor.calls.client import CallQuery, read_calls
from supervisor.capture.beside import Beside
from supervisor.capture.devices import Published
from supervisor.capture.driver import calls_of, captured_driver
from supervisor.capture.parts import DELAY_S
from supervisor.capture.recording import Recording
from supervisor.capture.script import captured
from supervisor.capture.session import record_beside
from tests.support.device_node import RESOURCE, DeviceNode, running_node
from tests.support.dra_lab import GPU, DraLab, asks, claim, running_lab
from tests.support.waiting import until_async

BUG = """
resource: example.com/gpu
devices: [{id: gpu-a, numa: 0}, {id: gpu-b, health: healthy}]
answer: {envs: {MINE: "$IDS"}, cdi: [v/d=$ID]}
calls:
  Allocate: [{delay: 300ms}, {error: out of luck, code: RESOURCE_EXHAUSTED}, {crash: true, restart: 1s}]
steps: [{at: 300ms, health: {gpu-b: Healthy}}]
"""


@asynccontextmanager
async def beside(kubelet: Path, served: Path) -> AsyncIterator[Recording]:
    recording, ended = Recording(), asyncio.Event()
    between = Beside(kubelet, served, recording, print)
    serving = asyncio.create_task(between.serve(ended.is_set))
    try:
        yield recording
    finally:
        ended.set()
        between.wake()
        await serving
        await between.stop()


async def play(node: DeviceNode, lists: int) -> None:
    """Admit pods: one waits, one fails, one kills the plugin, one comes after its restart."""
    await until_async("healthy devices", lambda: len(node.resources.items[RESOURCE].devices) == 2)
    for pod in ("one", "two", "three"):
        with contextlib.suppress(BusError):
            await node.admit(pod, main={RESOURCE: 1})

    async def registered() -> bool:
        calls = await read_calls(node.bus, CallQuery(RESOURCE))
        return len([call for call in calls if call.method == "GetDevicePluginOptions"]) == lists

    await until_async("the restart", registered)
    await until_async("serves", lambda: node.resources.items[RESOURCE].connected)
    await node.admit("four", main={RESOURCE: 1})


def without_times(script: dict[str, Any]) -> dict[str, Any]:
    """The script without what differs between two clocks on a loaded machine: times, delays, late first lists."""
    calls = {
        method: [{key: value for key, value in fault.items() if key not in ("delay", "restart")} for fault in faults]
        for method, faults in script["calls"].items()
        if method != "ListAndWatch"
    }
    steps = [{**step, "at": ""} for step in script.get("steps", ()) if set(step) != {"at", "calls"}]
    return {**script, "calls": calls, "steps": steps}


async def test_plugin_beside_a_kubelet_gives_the_script_of_the_kubelets_own_record(tmp_path: Path) -> None:
    bug = tmp_path / "bug.yaml"
    bug.write_text(BUG)
    async with running_node(actors=("devices",)) as node:
        served = node.root / "served"
        async with beside(node.layout.kubelet, served) as recording:
            node.plugin("--script", str(bug), "--kubelet-dir", str(served))
            await until_async("a registration", lambda: RESOURCE in node.resources.items)
            await play(node, 2)
            own = captured(RESOURCE, await read_calls(node.bus, CallQuery(RESOURCE, show_secrets=True)))
            mine = captured(RESOURCE, calls_of(RESOURCE, recording.records))
            assert without_times(mine.script) == without_times(own.script)
            assert [set(fault) - {"delay"} for fault in mine.script["calls"]["Allocate"]] == [
                set(),
                {"error", "code"},
                {"crash", "restart"},
            ]
            await node.restart("devices")
            await until_async("registered again", lambda: node.resources.items[RESOURCE].connected)
        assert not [path for path in node.root.rglob("nodeplane-*.sock") if path.is_socket()]
        assert not (served / "device-plugins" / "kubelet.sock").exists()


VERSIONS = ("v1beta1.DRAPlugin", "v1.DRAResourceHealth")


class Api:
    """Every claim is allocated."""

    async def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any]:
        result = {"request": "r", "driver": GPU, "pool": "n1", "device": "gpu-0"}
        return {
            "metadata": {"uid": f"{name}-uid"},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }


def accepted(recording: Recording) -> list[CallRecord]:
    return [record for record in recording.records if record.outcome.startswith("accepted")]


async def prepare(lab: DraLab, name: str) -> str:
    try:
        await lab.prepare(asks(name, claim(name)))
    except Exception as error:
        return str(error)
    return ""


async def test_driver_beside_a_kubelet_gives_its_faults_for_claims_health_and_restart() -> None:
    async with running_lab() as lab:
        served = lab.root / "served"
        fault = ClaimFault(delay=Seconds(2 * DELAY_S), claims={"b": ClaimAnswer(error="out of luck")})
        faults = Faults({"NodePrepareResources": fault})
        given = DriverScript(driver=GPU, versions=VERSIONS)
        options = DriverOptions(given, "n1", served, lab.root / "cdi", Path("/none"))
        board = HealthBoard(options.all_devices())
        async with beside(lab.root, served) as recording:
            server = DriverServer(options, Claims(options, Api()), board, faults, print)  # type: ignore[arg-type]  # answers all
            await server.start()
            await lab.connected(GPU)
            assert lab.registered.items[GPU].version == "v1beta1.DRAPlugin"
            assert [await prepare(lab, name) for name in ("a", "b")] == [
                "",
                "NodePrepareResources failed for ResourceClaim b: out of luck",
            ]
            await lab.says(f"{GPU}/n1/gpu-0", "Healthy")
            board.apply(DriverStep(at=Seconds(0), unhealthy=("gpu-0",), message="ECC"))
            await lab.says(f"{GPU}/n1/gpu-0", "Unhealthy", "ECC")
            await server.stop()
            await until_async("gone", lambda: not lab.registered.items[GPU].connected)
            await server.start()
            await until_async("registered twice", lambda: len(accepted(recording)) == 2)
            await lab.says(f"{GPU}/n1/gpu-0", "Unhealthy", "ECC")  # else the stop cancels a call that has just begun
            await server.stop()
        script = captured_driver(GPU, calls_of(GPU, recording.records), Published()).script
    assert tuple(script["versions"]) == VERSIONS
    found = script["calls"]["NodePrepareResources"]
    for each in found if isinstance(found, list) else [found]:
        assert (each["claims"], each["delay"] >= "0.2s") == ({"b": {"error": "out of luck"}}, True)
    done = [{key: value for key, value in step.items() if key != "at"} for step in script["steps"]]
    assert done[:3] == [{"health": {"gpu-0": "Unhealthy"}, "message": "ECC"}, {"stop": True}, {"register": True}]


def test_wrong_directories_and_unknown_names_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no directory device-plugins"):
        record_beside(RESOURCE, tmp_path, tmp_path / "served", 0)
