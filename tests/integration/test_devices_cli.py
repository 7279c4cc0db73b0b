"""`nodeplane watch`, `devices` and `plugin` as a person runs them."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from protocols.bus import Bus, BusOptions
from supervisor.cli.inspect.devices import resource_cells, resource_rows
from supervisor.cli.inspect.tap import tap
from supervisor.client.connection import Asking
from supervisor.client.devices import device_rows
from tests.support.device_node import RESOURCE, DeviceNode, running_node, until


def watching(node: DeviceNode, *words: str) -> Path:
    """`nodeplane watch ...`; returns the file it prints to."""
    out = node.root / f"watch-{len(node.processes)}.log"
    command = [sys.executable, "-m", "supervisor.cli.main", "--root", str(node.root), "watch", *words]
    with open(out, "ab") as file:
        node.processes[out.name] = subprocess.Popen(command, stdout=file, stderr=file)
    return out


def events(out: Path) -> list[tuple[str, str]]:
    whole = out.read_text().rpartition("\n")[0]  # the last line may be half written
    lines = (line for line in whole.splitlines() if line.startswith("{"))
    return [(item["action"], item["name"]) for item in map(json.loads, lines)]


async def test_watch_pods_shows_everything_once_through_crashes() -> None:
    async with running_node() as node:
        node.plugin("--resource", RESOURCE, "--devices", "4", "--numa", "2")
        await node.settled(4, 4)
        await node.admit("before", main={RESOURCE: 1})
        out = watching(node, "pods", "-o", "json")
        await until("the snapshot", lambda: events(out) == [("ADDED", "before")])
        await node.admit("one", main={RESOURCE: 2})
        await until("one", lambda: ("ADDED", "one") in events(out))
        node.kill("frontdoor")
        await node.release("one")
        await node.admit("two")
        node.start("frontdoor")
        await node.up()
        await node.restart("devices")
        await node.release("two")
        want = [("ADDED", "before"), ("ADDED", "one"), ("DELETED", "one"), ("ADDED", "two"), ("DELETED", "two")]
        await until("all of it once", lambda: events(out) == want)


async def test_watch_in_human_readable_form() -> None:
    async with running_node() as node:
        pods, allocatable = watching(node, "pods"), watching(node, "allocatable")
        node.plugin("--resource", RESOURCE, "--devices", "4", "--numa", "2")
        await node.settled(4, 4)
        await node.admit("p1", main={RESOURCE: 3}, idle={})
        line = f"ADDED    default/p1  main  {RESOURCE}  gpu-0(numa 0) gpu-1(numa 0) gpu-2(numa 1)"
        await until("the pod", lambda: line in pods.read_text())
        everything = f"ADDED    {RESOURCE}  gpu-0(numa 0) gpu-1(numa 0) gpu-2(numa 1) gpu-3(numa 1)"
        await until("the devices", lambda: everything in allocatable.read_text())


async def test_watch_refused_for_good_is_one_line_and_exit_1() -> None:
    async with running_node(feature_gates={"KubeletPodResourcesWatch": False}) as node:
        out = watching(node, "pods")
        process = node.processes.pop(out.name)
        assert await asyncio.to_thread(process.wait, 60) == 1
        assert out.read_text().splitlines() == [
            f"nodeplane: {node.layout.pod_resources_socket}: no watch here: ListAndWatch is disabled:"
            " feature gate KubeletPodResourcesWatch is off; beside a kubelet, nodeplane adopt serves one"
        ]


async def test_tap_shows_a_stream_without_its_types(capsys: pytest.CaptureFixture[str]) -> None:
    async with running_node() as node:
        await node.stub().with_devices("a").start()
        await node.settled(1, 1)
        own = Bus(BusOptions(name="", run_dir=node.layout.run))
        await own.start()
        following = asyncio.create_task(tap(Asking(own, node.layout), "devices", "allocations"))
        await node.admit("p1", main={RESOURCE: 1})
        shown: list[dict[str, Any]] = []

        def arrived() -> bool:
            shown.extend(map(json.loads, capsys.readouterr().out.splitlines()))
            return any(line.get("key") for line in shown)

        await until("the pod", arrived)
        assert {"op": "synced"} in shown
        assert next(line["value"]["name"] for line in shown if line.get("key")) == "p1"
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        await own.close()


async def test_devices_lists_who_has_what() -> None:
    async with running_node(actors=("devices",)) as node:
        await node.stub().with_devices("a", "b", numa={"a": 0}).start()
        await node.settled(2, 2)
        await node.admit("p1", main={RESOURCE: 1})
        await node.chaos("b", "unhealthy")
        own = Bus(BusOptions(name="", run_dir=node.layout.run))
        await own.start()
        rows = await device_rows(Asking(own, node.layout))
        await own.close()
        assert [(row.device, row.numa, row.health, row.message, row.pod, row.containers) for row in rows] == [
            ("a", (0,), "Healthy", "", "", ()),
            ("b", (), "Unhealthy", "forced by chaos", "default/p1", ("main",)),
        ]


async def test_plugins_shows_who_stands_behind_each_resource() -> None:
    async with running_node(actors=("devices",)) as node:
        old = node.stub(endpoint="old.sock").with_devices("a", "b")
        old.options.pre_start_required = True
        await old.start()
        await node.settled(2, 2)
        await node.admit("p1", main={RESOURCE: 1})
        await node.stub(endpoint="new.sock").with_devices("a", "b", "c").start()
        await node.settled(3, 3)
        left = node.stub("example.com/nic", "left.sock").with_devices("n")
        await left.start()
        await node.settled(1, 1, "example.com/nic")
        await left.stop()
        await node.settled(0, 1, "example.com/nic")
        own = Bus(BusOptions(name="", run_dir=node.layout.run))
        await own.start()
        rows = await resource_rows(Asking(own, node.layout))
        await own.close()
        lines = [list(line) for row in rows for line in resource_cells(row, time.time_ns())]
        assert lines[0][:6] == [RESOURCE, "3", "3", "1", "new.sock", "serves"]
        assert (lines[1][4:6], lines[1][7]) == (["old.sock", "replaced"], "prestart")
        assert lines[2][:6] == ["example.com/nic", "1", "0", "0", "left.sock", "gone"]
        assert lines[2][8] == "ListAndWatch ended: the plugin closed its stream"


async def test_plugin_follows_its_health_file_and_leaves_nothing() -> None:
    async with running_node(actors=("devices",)) as node:
        told = node.root / "health"
        process = node.plugin("--resource", RESOURCE, "--devices", "2", "--health-file", str(told))
        await node.settled(2, 2)
        told.write_text("# comment\ngpu-1 Unhealthy\n")
        await node.settled(1, 2)
        wrong = told.with_suffix(".new")
        wrong.write_text("gpu-1\n")
        wrong.replace(told)  # as one change: an empty file would make all well
        await until("a complaint", lambda: "line 1 of the health file" in node.log("plugin"))
        assert node.figures() == (1, 2)
        told.unlink()
        await node.settled(2, 2)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 60) == 0
        names = {path.name for path in node.layout.device_plugins.iterdir() if not path.name.startswith(".")}
        assert names == {"kubelet.sock", "kubelet_internal_checkpoint"}
        assert node.log("plugin").splitlines()[-1] == "stopped"


def test_plugin_refuses_bad_flags_in_one_line() -> None:
    for flags in (("--resource", "gpu"), ("--resource", "a.b/c", "--devices", "many")):
        command = [sys.executable, "-m", "supervisor.cli.main", "plugin", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
