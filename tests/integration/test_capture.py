"""`nodeplane capture`: a plugin that fails, its script written from the calls, and played on another node."""

import contextlib
from pathlib import Path
from typing import Any

import yaml

from protocols.bus import BusError
from protocols.messages.calls import CallRecord
from supervisor.calls.client import CallQuery, read_calls
from supervisor.capture.parts import script_text
from supervisor.capture.script import captured
from tests.support.device_node import RESOURCE, DeviceNode, running_node
from tests.support.waiting import until_async

BUG = """
resource: example.com/gpu
devices: [{id: gpu-a, numa: 0}, {id: gpu-b, numa: 1}, {id: gpu-c}]
preStart: true
answer: {envs: {MINE: "$IDS"}, mounts: [{containerPath: /x/$ID, hostPath: /y/$ID}], cdi: [v/d=$ID]}
calls:
  Allocate: [{}, {error: out of luck, code: RESOURCE_EXHAUSTED}, {delay: 400ms, crash: true, restart: 1s}, {}]
steps:
  - {at: 1s, health: {gpu-c: healthy}}
  - {at: 2s, remove: [gpu-c], add: [{id: gpu-d}]}
  - {at: 3s, end: {error: lost the card, code: DATA_LOSS}}
  - {at: 4s, register: true}
"""


async def play(node: DeviceNode, script: Path) -> list[CallRecord]:
    """Play a script, then four pods, whose calls fail; return the record."""
    node.plugin("--script", str(script))

    async def registered(times: int) -> bool:
        lists = [each for each in await read(node) if len(each.reply.get("added", ())) == 3]
        return len(lists) == times

    await until_async("all steps", lambda: registered(2))
    for pod in ("one", "two", "three"):
        with contextlib.suppress(BusError):
            await node.admit(pod, main={RESOURCE: 1})
    await until_async("the restart", lambda: registered(3))
    await node.admit("four", main={RESOURCE: 1})
    return await read(node)


async def read(node: DeviceNode) -> list[CallRecord]:
    return await read_calls(node.bus, CallQuery(RESOURCE, show_secrets=True))


def without_times(record: CallRecord) -> tuple[Any, ...]:
    request = {name: value for name, value in record.request.items() if name != "endpoint"}
    error = record.error if record.status != "UNAVAILABLE" else ""  # the words of a connection that broke vary
    return record.method, record.status, error, request, record.reply


async def test_captured_script_plays_the_same_calls_lists_errors_and_deaths(tmp_path: Path) -> None:
    bug, replay = tmp_path / "bug.yaml", tmp_path / "replay.yaml"
    bug.write_text(BUG)
    async with running_node(actors=("devices",)) as node:
        first = await play(node, bug)
    found = captured(RESOURCE, first)
    replay.write_text(script_text(found))
    assert found.omitted == 0
    assert found.script["devices"] == [{"id": "gpu-a", "numa": [0]}, {"id": "gpu-b", "numa": [1]}, {"id": "gpu-c"}]
    assert found.script["answer"] == yaml.safe_load(BUG)["answer"]
    assert [set(fault) - {"delay"} for fault in found.script["calls"]["Allocate"]][-1] == {"crash", "restart"}
    async with running_node(actors=("devices",)) as node:
        second = await play(node, replay)
    assert [without_times(each) for each in first] == [without_times(each) for each in second]
    statuses = [each.status for each in first if each.method == "Allocate"]
    assert statuses == ["OK", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "OK"]
