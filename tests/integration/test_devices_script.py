"""`nodeplane plugin --script`: a plugin that fails on order, against the real device manager."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from protocols.bus import FailedPrecondition
from tests.support.device_node import RESOURCE, DeviceNode, running_node, until

ONLY = {"actors": ("devices",)}


def write(node: DeviceNode, text: str, name: str = "script.yaml") -> str:
    path = node.root / name
    path.write_text(text)
    return str(path)


async def test_a_bad_day_is_played_at_its_times() -> None:
    """Unhealthy, crash, registration with fewer devices, refused and hung calls, a wrong version, exit code 3."""
    script = """
resource: example.com/gpu
devices: 4
preferred: last
answer: {envs: {MINE: "$IDS"}}
steps:
  - {at: 1.5s, unhealthy: [gpu-1]}
  - {at: 3s, crash: true}
  - {at: 4.5s, remove: 2, healthy: [gpu-1], register: true, calls: {Allocate: {error: out of luck, times: 1}}}
"""
    end = """
resource: example.com/other
devices: 1
steps:
  - {at: 0.5s, register: {version: v9}}
  - {at: 3s, exit: 3}
"""

    async with running_node(**ONLY) as node:
        node.plugin("--script", write(node, script))
        node.expected_codes = {3}
        process = node.plugin("--script", write(node, end, "end.yaml"))
        await node.settled(2, 2)
        assert [pair for pair in node.seen[RESOURCE] if pair != (0, 0)] == [(4, 4), (3, 4), (0, 4), (2, 2)]
        with pytest.raises(FailedPrecondition, match="out of luck"):
            await node.admit("p1", main={RESOURCE: 1})
        grant = (await node.admit("p2", main={RESOURCE: 1})).grants["main"]
        assert grant.envs == {"MINE": "gpu-1"}
        await node.holds({"p2": ["gpu-1"]})
        assert await asyncio.to_thread(process.wait, 60) == 3
        assert 'requested API version "v9" is not supported by kubelet' in node.log("plugin")
        await node.settled(0, 1, "example.com/other")


@pytest.mark.scenario("S16")
async def test_a_hang_ends_with_the_next_fault_and_costs_only_its_pod() -> None:
    script = """
devices: 2
calls: {Allocate: {hang: true}}
steps:
  - {at: 4s, calls: {Allocate: {}}}
"""

    async with running_node(**ONLY) as node:
        await node.stub("example.com/nic", "nic.sock").with_devices("n").start()
        node.plugin("--resource", RESOURCE, "--script", write(node, script))
        await node.settled(2, 2)
        waiting = asyncio.create_task(node.admit("slow", main={RESOURCE: 1}))
        await node.admit("quick", main={"example.com/nic": 1})
        assert not waiting.done()
        await waiting
        await until("both", lambda: set(node.held()) == {"slow", "quick"})


@pytest.mark.parametrize("text", ["steps: [{at: 1s, explode: true}]", "resource: gpu"])
def test_a_wrong_script_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    command = [sys.executable, "-m", "supervisor.cli.main", "plugin", "--script", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
