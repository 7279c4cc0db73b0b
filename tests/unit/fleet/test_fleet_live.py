"""A fleet that runs on an API in memory: faults of a script and of users, and what the API shows of them."""

import argparse
import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from actors.fleet.faults import control
from actors.fleet.faults.control import FleetAway, ask, socket_path
from actors.fleet.faults.flags import add_orders
from actors.fleet.faults.live import LiveFleet
from actors.fleet.faults.orders import give_order
from actors.fleet.profiles.expand import NodeTemplate
from actors.fleet.shell import nodes as shell
from actors.fleet.shell.fleet import Fleet, FleetOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.decode import slice_of
from protocols.dra.types import PoolId
from protocols.errors import SettingsInvalid
from protocols.kinds.table import LEASES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from protocols.kube.errors import ApiAway
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.lifecycle.node.lease import NAMESPACE
from protocols.process.layout import Layout, layout
from protocols.process.scripts import ScriptInvalid
from protocols.process.sockets import SocketInUse
from protocols.process.tasks import awaited, cancel
from tests.support.fleet_world import DRIVER, RESOURCE, templates
from tests.support.json_outputs import check_output
from tests.support.memory_api import MemoryApi
from tests.support.waiting import until_true

ONE = {"resources": {"limits": {RESOURCE: "1"}}}


class Lab:
    """A fleet of two nodes, and what the API has."""

    def __init__(self, root: Path, api: MemoryApi | None = None) -> None:
        self.root = root
        self.api = api or MemoryApi()
        self.said: list[str] = []

    @property
    def layout(self) -> Layout:
        return layout(str(self.root))

    @asynccontextmanager
    async def fleet(
        self,
        script: str = "",
        seed: int | None = None,
        nodes: tuple[NodeTemplate, ...] = tuple(templates()),
        pools: tuple[Object, ...] = (),
    ) -> AsyncIterator[Fleet]:
        options = FleetOptions(name="lab", templates=nodes, pools=pools)
        fleet = Fleet(cast("ApiClient", self.api), options)
        path = self.root / "day.yaml"
        path.write_text(script)
        args = argparse.Namespace(script=path if script else None, seed=seed)
        async with LiveFleet(fleet, self.layout, args, self.said.append) as live:
            running = awaited(live.run())
            try:
                await asyncio.wait_for(fleet.registry.ready.wait(), 20)
                yield fleet
            finally:
                await cancel(running)

    async def fault(self, **fields: Any) -> str:
        answer = await ask(socket_path(self.layout, "lab"), {"fault": fields})
        assert answer.hit is not None
        return answer.hit.text

    async def status(self) -> Any:
        return json.loads(await self.exchange(b'{"status": true}\n'))["status"]

    async def exchange(self, line: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(socket_path(self.layout, "lab"))
        writer.write(line)
        found = await reader.read()
        writer.close()
        return found

    def bind(self, name: str, container: dict[str, Any], node: str = "gpu-0", **spec: Any) -> None:
        spec = {"nodeName": node, "containers": [{"name": "a", "image": "x", **container}], **spec}
        self.api.put(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def claiming(self, name: str) -> None:
        """Bind a pod with a claim of its own."""
        self.bind(name, {"resources": {"claims": [{"name": "gpu"}]}}, resourceClaims=[CLAIM])
        results = [{"request": "r", "driver": DRIVER, "pool": "gpu-0", "device": "gpu-1"}]
        status = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"uid": self.pod(name)["metadata"]["uid"]}],
        }
        self.api.put(RESOURCECLAIMS, {"metadata": {"name": "c", "namespace": "default"}, "status": status})

    def pod(self, name: str) -> Any:
        return self.api.objects[PODS.plural][f"default/{name}"]

    def container(self, name: str) -> Any:
        return (self.pod(name).get("status", {}).get("containerStatuses") or [{}])[0]

    def health(self, name: str) -> str:
        entries = self.container(name).get("allocatedResourcesStatus") or [{"resources": [{"health": ""}]}]
        return str(entries[0]["resources"][0]["health"])

    def ready(self, node: str = "gpu-0") -> str:
        conditions = self.api.objects[NODES.plural][node]["status"]["conditions"]
        return str(next(condition["status"] for condition in conditions if condition["type"] == "Ready"))

    def allocatable(self) -> str:
        return str(self.api.objects[NODES.plural]["gpu-0"]["status"]["allocatable"][RESOURCE])

    def renewed(self) -> Any:
        return self.api.objects[LEASES.plural][f"{NAMESPACE}/gpu-0"]["spec"]["renewTime"]

    def generations(self) -> list[int]:
        found = self.api.objects[RESOURCESLICES.plural].values()
        return [each["spec"]["pool"]["generation"] for each in found if each["spec"]["nodeName"] == "gpu-0"]

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.api.objects["events"].values()]


CLAIM = {"name": "gpu", "resourceClaimName": "c"}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


async def test_end_of_a_fault_mends_nothing_that_a_later_fault_has_hit(lab: Lab) -> None:
    broken = {"plugin": RESOURCE, "health": "Unhealthy", "nodes": "gpu-0"}
    async with lab.fleet() as fleet:
        await lab.fault(nodes="gpu-*", node="silent", lasts="0.3s")
        await lab.fault(nodes="gpu-0", node="silent")
        await lab.fault(**broken, lasts="0.3s")
        await lab.fault(**broken, devices="gpu-1")
        await until_true(lambda: lab.said[-1].startswith("mended at") and "3 devices" in lab.said[-1], 10)
        assert [node.silent for node in fleet.nodes.values()] == [True, False]
        reports = fleet.nodes["gpu-0"].devices.reports()
        assert [each.id for each in reports if each.health == "Unhealthy"] == ["gpu-1"]


async def test_broken_device_is_in_status_event_and_allocatable(lab: Lab) -> None:
    lab.bind("p", ONE)
    async with lab.fleet() as fleet:
        await until_true(lambda: lab.health("p") == "Healthy", 10)
        text = await lab.fault(plugin=RESOURCE, health="Unhealthy", message="hot", nodes="gpu-0", lasts="1s")
        assert text == f"1 of 2 nodes: {RESOURCE} Unhealthy (4 devices, 1 pods)"
        await until_true(lambda: lab.health("p") == "Unhealthy", 10)
        await until_true(lambda: "DeviceUnhealthy" in lab.reasons(), 10)
        await until_true(lambda: lab.allocatable() == "0", 10)
        await until_true(lambda: lab.health("p") == "Healthy", 10)
        assert [line.partition(": ")[2] for line in lab.said] == [text, text.replace("Unhealthy", "Healthy")]
        assert 0 < (await lab.status())["writes"] <= fleet.pods.writes  # the one that shows it healthy may be under way


async def test_events_of_a_node_wait_for_no_other_node(lab: Lab) -> None:
    lab.api.fault = lambda verb, resource, name: ApiAway("no answer") if name.startswith("held.") else None
    lab.bind("held", ONE)
    lab.bind("p", ONE, node="gpu-1")
    async with lab.fleet():
        await until_true(lambda: {lab.health("held"), lab.health("p")} == {"Healthy"}, 10)
        await lab.fault(plugin=RESOURCE, health="Unhealthy")
        await until_true(lambda: lab.reasons() == ["DeviceUnhealthy"], 10)


async def test_driver_that_is_gone_loses_its_slices_and_publishes_them_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "SLICE_GRACE_S", 0.3)
    lab.claiming("p")
    async with lab.fleet():
        await until_true(lambda: lab.health("p") == "Healthy" and lab.generations() == [1], 10)
        await lab.fault(driver=DRIVER, state="gone", nodes="gpu-0")
        await until_true(lambda: lab.health("p") == "Unknown", 10)
        assert lab.generations() == [1]
        await until_true(lambda: lab.generations() == [], 10)
        assert len(lab.api.objects[RESOURCESLICES.plural]) == 1
        await lab.fault(driver=DRIVER, state="back", nodes="gpu-0")
        await until_true(lambda: lab.generations() == [1] and lab.health("p") == "Healthy", 10)


async def test_silent_node_catches_up_when_it_is_back(lab: Lab) -> None:
    lab.bind("p", {}, restartPolicy="Never")
    async with lab.fleet():
        await until_true(lambda: lab.pod("p").get("status", {}).get("phase") == "Running", 10)
        await lab.fault(node="silent", nodes="gpu-0")
        renewed = lab.renewed()
        lab.bind("late", {})
        await lab.fault(crash="100%", exitCode=3)
        self_reported = lab.api.objects[NODES.plural]["gpu-0"]
        conditions = [{**condition, "status": "Unknown"} for condition in self_reported["status"]["conditions"]]
        lab.api.put(NODES, {**self_reported, "status": {**self_reported["status"], "conditions": conditions}})
        await asyncio.sleep(0.3)
        status = await lab.status()
        assert (lab.ready(), lab.renewed(), lab.pod("p")["status"]["phase"]) == ("Unknown", renewed, "Running")
        assert (status["silent"], "status" in lab.pod("late")) == (1, False)
        await lab.fault(node="back", nodes="gpu-0")
        await until_true(lambda: lab.ready() == "True" and lab.renewed() > renewed, 10)
        await until_true(lambda: lab.pod("p")["status"]["phase"] == "Failed", 10)
        await until_true(lambda: lab.pod("late").get("status", {}).get("phase") == "Running", 10)


async def test_node_that_was_deleted_registers_anew_when_it_is_back(lab: Lab) -> None:
    async with lab.fleet() as fleet:
        lab.api.drop(NODES, "gpu-0")
        lab.api.drop(LEASES, "gpu-0", NAMESPACE)
        await until_true(lambda: fleet.nodes["gpu-0"].silent, 10)
        await asyncio.sleep(0.1)
        assert "gpu-0" not in lab.api.objects[NODES.plural]
        await lab.fault(node="back", nodes="gpu-0")
        await until_true(
            lambda: (
                {"gpu-0"} <= lab.api.objects[NODES.plural].keys()
                and f"{NAMESPACE}/gpu-0" in lab.api.objects[LEASES.plural]
            ),
            10,
        )


async def test_next_run_takes_up_generation_and_devices(lab: Lab) -> None:
    lab.bind("p", ONE)
    async with lab.fleet():
        await until_true(lambda: lab.health("p") == "Healthy" and lab.generations() == [1], 10)
        await lab.fault(slices="republish", without="50%")
        await until_true(lambda: lab.generations() == [2], 10)
        await lab.fault(plugin=RESOURCE, health="Unhealthy")
        await until_true(lambda: lab.health("p") == "Unhealthy", 10)
    slices = len(lab.api.objects[RESOURCESLICES.plural])
    async with lab.fleet():
        await until_true(lambda: lab.health("p") == "Healthy" and lab.generations() == [3], 10)
    assert (len(lab.api.objects[RESOURCESLICES.plural]), lab.container("p")["restartCount"]) == (slices, 0)
    versions = [each["metadata"]["resourceVersion"] for each in lab.api.objects[RESOURCESLICES.plural].values()]
    async with lab.fleet():
        await asyncio.sleep(0.2)
    assert versions == [each["metadata"]["resourceVersion"] for each in lab.api.objects[RESOURCESLICES.plural].values()]


async def test_slice_of_an_earlier_run_counts_no_more(lab: Lab) -> None:
    devices = [[{"name": f"{kind}-{{i}}", "repeat": 4}] for kind in ("gpu", "more")]
    both = templates(drivers=[{"driver": DRIVER, "slices": [{"devices": each} for each in devices]}])
    catalog = Catalog()
    async with lab.fleet(nodes=tuple(both)):
        await until_true(lambda: lab.generations() == [1, 1], 10)
    async with lab.fleet():
        await until_true(lambda: lab.generations() == [2], 10)
    for each in lab.api.objects[RESOURCESLICES.plural].values():
        catalog.put(slice_of(each))
    pool = catalog.pool(PoolId(DRIVER, "gpu-0"))
    assert pool is not None
    assert pool.complete
    assert [device.id.device for device in pool.devices] == [f"gpu-{number}" for number in range(4)]


DAY = """
steps:
- {at: 0.1s, share: 50%, driver: gpu.example.com, health: Unhealthy, devices: 25%}
- {at: 0.2s, every: 0.1s, until: 0.4s, count: 1, node: silent, lasts: 0.1s}
- {at: 0.5s, count: 1, slices: republish}
"""


async def test_script_hits_the_same_for_the_same_seed(tmp_path: Path) -> None:
    hits = []
    for run, seed in enumerate((7, 7, 8, 9)):
        lab = Lab(tmp_path / str(run))
        lab.root.mkdir()
        async with lab.fleet(DAY, seed=seed) as fleet:
            await until_true(partial(lab.said.__contains__, "the script is over"), 10)
            sick = [
                report.id
                for node in fleet.nodes.values()
                for report in node.devices.reports()
                if report.health == "Unhealthy"
            ]
            raised = [name for name, node in fleet.nodes.items() if node.devices.drivers[DRIVER].generation == 2]
            hits.append((sick, raised))
            assert (await lab.status())["fault_count"] == 5
    assert hits[0] == hits[1]
    assert len({repr(hit) for hit in hits}) > 1


async def test_fault_of_a_user_can_be_played_by_a_script(lab: Lab) -> None:
    async with lab.fleet(seed=5) as fleet:
        await lab.fault(count=1, node="silent")
        silent = [name for name, node in fleet.nodes.items() if node.silent]
        (played,) = (await lab.status())["faults"]
    step = {"at": "0s", **played["fault"]}
    async with lab.fleet(json.dumps({"steps": [step]}), seed=5) as fleet:
        await until_true(lambda: "the script is over" in lab.said, 10)
        assert [name for name, node in fleet.nodes.items() if node.silent] == silent


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"driver": "no.example.com", "state": "gone"}, f"the fleet has no driver no.example.com; there are {DRIVER}"),
        ({"plugin": "a/b", "state": "gone"}, f"the fleet has no plugin a/b; there are {RESOURCE}"),
        ({"group": "cpu", "node": "silent"}, "the fleet has no group cpu; there are gpu"),
        ({"node": "loud"}, "order: unknown word 'loud' at fault.node"),
        (
            {"node": "silent", "selector": "a=b"},
            "the fault hits none of the 2 nodes; see `kubectl get nodes --show-labels`",
        ),
    ],
)
async def test_fault_of_what_is_not_there_is_an_error(lab: Lab, fields: Object, error: str) -> None:
    async with lab.fleet():
        with pytest.raises(ScriptInvalid) as found:
            await lab.fault(**fields)
        assert str(found.value) == error
    with pytest.raises(ScriptInvalid, match="the fleet has no group"):
        async with lab.fleet("steps: [{at: 1s, group: cpu, node: silent}]"):
            pass


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "the fault is missing; give one of --health, --state, --node, --crash, --slices"),
        (["--health", "Healthy"], "fault: health needs a plugin or a driver, and not both"),
    ],
)
async def test_flags_that_make_no_fault_are_rejected_before_a_fleet_is_asked(
    lab: Lab, words: list[str], error: str
) -> None:
    parser = argparse.ArgumentParser()
    add_orders(parser.add_subparsers(dest="order"), "lab")
    with pytest.raises(SettingsInvalid) as found:
        await give_order(parser.parse_args(["fault", *words]), lab.layout)
    assert str(found.value) == error


async def test_fleet_of_pools_alone_waits_for_no_node(lab: Lab) -> None:
    pool = {"driver": DRIVER, "pool": {"name": "shared", "generation": 1, "resourceSliceCount": 1}, "allNodes": True}
    async with lab.fleet("steps: [{at: 0s, node: silent}]", nodes=(), pools=(pool,)):
        await until_true(lambda: "the script is over" in lab.said, 10)
        await until_true(lambda: bool(lab.api.objects[RESOURCESLICES.plural]), 10)


# the socket


async def test_garbage_is_answered_and_harms_nobody(lab: Lab) -> None:
    async with lab.fleet():
        for line in (b"\0\xff\n", b"{}\n", b"[1]\n", b'{"status": true, "fault": {"node": "silent"}}\n', b"&a [*a]\n"):
            assert json.loads(await lab.exchange(line))["error"]
        assert "longer than" in json.loads(await lab.exchange(b"x" * (control.MAX_LINE + 1)))["error"]
        assert (await lab.status())["registered"] == 2


async def test_clients_are_bounded_in_number_and_time(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "DEADLINE_S", 0.3)
    async with lab.fleet():
        path = socket_path(lab.layout, "lab")
        idle = [await asyncio.open_unix_connection(path) for _ in range(control.MAX_CLIENTS)]
        with pytest.raises(FleetAway):
            await ask(path, {"status": True})
        assert [await reader.read() for reader, _ in idle] == [b""] * control.MAX_CLIENTS
        for _, writer in idle:
            writer.close()
            await writer.wait_closed()
        assert (await lab.status())["registered"] == 2


async def test_socket_is_private_and_gone_at_the_end(lab: Lab) -> None:
    path = socket_path(lab.layout, "lab")
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with lab.fleet():
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(SocketInUse, match="runs already"):
            async with lab.fleet():
                pass
        assert (await lab.status())["name"] == "lab"
    assert not path.exists()
    with pytest.raises(FleetAway, match="no fleet answers"):
        await ask(path, {"status": True})


@pytest.mark.parametrize("name", ["a/b", "../b", "x" * 200, "", "\u00c4 x", "My_Fleet"])
def test_name_that_is_no_label_is_an_error(lab: Lab, name: str) -> None:
    with pytest.raises(SettingsInvalid, match="no fleet can be called"):
        socket_path(lab.layout, name)


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["fault", "--plugin", RESOURCE, "--health", "Unhealthy", "--devices", "2", "--count", "1", "--lasts", "1s"],
        ["fault", "--crash", "10%", "--exit-code", "3"],
    ],
)
async def test_orders_print_text_and_json(lab: Lab, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_orders(parser.add_subparsers(dest="order"), "lab")
    async with lab.fleet():
        await until_true(lambda: lab.generations() == [1], 10)
        assert await give_order(parser.parse_args(words), lab.layout) == 0
        text = capsys.readouterr().out
        assert ("of 2 nodes" if words[0] == "fault" else "2 registered, 0 silent") in text
        await give_order(parser.parse_args([*words, "-o", "json"]), lab.layout)
        check_output(["fleet", *words, "-o", "json"], capsys.readouterr().out)
