"""The example driver's pure parts: its slices, its script, its health, its way to the API."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.simulator.driver import slices as slices_module
from actors.simulator.driver.claims import Claims, _parameters
from actors.simulator.driver.health import HealthBoard, ReportedHealth, parse_health
from actors.simulator.driver.options import CardDevice, DriverOptions
from actors.simulator.driver.process import attacher
from actors.simulator.driver.script import ClaimAnswer, ClaimFault, DeviceSpec, DriverScript, DriverStep
from actors.simulator.driver.server import DriverServer, answer_for
from actors.simulator.driver.slices import Publisher, slice_specs
from actors.simulator.engine.faults import Faults
from actors.simulator.engine.files import HealthFileInvalid
from protocols.kinds.table import NODES, RESOURCECLAIMS, RESOURCESLICES, Resource
from protocols.kube.meta import Object
from protocols.kube.quantity import parse_quantity
from protocols.process.scripts import CallFault, ScriptInvalid, Seconds, parse_script
from protocols.process.tasks import awaited, cancel
from protocols.wire.plugins import WATCH_DEVICES_STATUS
from tests.support.dra_rows import created, row
from tests.support.memory_api import MemoryApi, RestoredApi, conflict
from tests.support.scheduler_life import heard
from tests.support.waiting import until_async


def options_of(**given: Any) -> DriverOptions:
    script = DriverScript(driver="gpu.example.com", **given)
    return DriverOptions(script, "n1", Path("/k"), Path("/cdi"), Path("/kubeconfig"))


OPTIONS = options_of(devices=8, numa=2)


@settings(max_examples=25)
@given(st.integers(0, 300), st.integers(0, 5))
def test_slices_keep_upstreams_limits_and_hold_every_device_once(devices: int, partitions: int) -> None:
    options = options_of(devices=devices, partitions=partitions)
    specs = slice_specs(options, options.all_devices(), 3)
    assert {(spec["pool"]["generation"], spec["pool"]["resourceSliceCount"]) for spec in specs} == {(3, len(specs))}
    names = [device["name"] for spec in specs for device in spec.get("devices", ())]
    assert names == [device.name for device in options.all_devices()]
    for spec in specs:
        assert len(spec.get("devices", ())) <= (64 if partitions else 128)
        assert len(spec.get("sharedCounters", ())) <= 8
        assert ("devices" in spec) != ("sharedCounters" in spec)


def test_parts_never_take_more_than_their_card_has() -> None:
    options = options_of(devices=1, partitions=4, numa=2)
    specs = slice_specs(options, options.all_devices(), 1)
    (counters,) = [item for spec in specs for item in spec.get("sharedCounters", ())]
    devices = [item for spec in specs for item in spec.get("devices", ())]

    def amount(item: dict[str, Any], name: str) -> int:
        return parse_quantity(item["counters"][name]["value"]).nanos

    taken = {item["name"]: item["consumesCounters"][0] for item in devices}
    for name in ("memory", "parts"):
        parts = sum(amount(taken[f"gpu-0-part-{part}"], name) for part in range(4))
        assert parts <= amount(counters, name)
        assert amount(taken["gpu-0"], name) == amount(counters, name)
    assert {item["attributes"]["numa"]["int"] for item in devices} == {0}


@pytest.mark.parametrize("partitions", [0, 3, 16])
def test_shared_devices_have_a_policy_that_the_api_accepts(partitions: int) -> None:
    options = options_of(devices=2, partitions=partitions, shared=True)
    for spec in slice_specs(options, options.all_devices(), 1):
        assert created(row("resourceslices"), spec)[1] == []
        assert all(device["allowMultipleAllocations"] for device in spec.get("devices", ()))


def test_devices_attached_late_have_conditions_that_the_api_accepts() -> None:
    options = options_of(devices=2, attach=5)
    (spec,) = slice_specs(options, options.all_devices(), 1)
    assert created(row("resourceslices"), spec)[1] == []
    assert spec["devices"][0]["bindingConditions"] == ["gpu.example.com/attached"]
    assert spec["devices"][0]["bindsToNode"] is True


def late_claim(*devices: str, uid: str = "u") -> Any:
    conditions = {"bindingConditions": ["gpu.example.com/attached"], "bindingFailureConditions": ["x/failed"]}
    results = [
        {"request": "r", "driver": OPTIONS.driver, "pool": "n1", "device": device, **conditions} for device in devices
    ]
    allocation = {"devices": {"results": results}}
    return {"metadata": {"name": "c", "namespace": "ns", "uid": uid}, "status": {"allocation": allocation}}


async def test_attacher_reports_each_allocated_device_once_also_after_conflicts() -> None:
    api, lines = MemoryApi(), list[str]()
    board = HealthBoard(OPTIONS.all_devices())
    board.set({"gpu-1": ReportedHealth("Unhealthy", "no link")})
    conflicts = [conflict(), conflict()]
    api.fault = lambda verb, resource, name: conflicts.pop() if verb == "update" and conflicts else None
    found = attacher(OPTIONS, api, board, lines.append)  # type: ignore[arg-type]  # as ApiClient
    running = asyncio.ensure_future(found.run())
    api.put(RESOURCECLAIMS, late_claim("gpu-0", "gpu-1"))

    def devices() -> Any:
        return api.objects["resourceclaims"]["ns/c"]["status"].get("devices")

    await until_async("reported", devices)
    shown = {device["device"]: device["conditions"][0] for device in devices()}
    assert (shown["gpu-0"]["type"], shown["gpu-0"]["status"]) == ("gpu.example.com/attached", "True")
    assert (shown["gpu-1"]["type"], shown["gpu-1"]["message"]) == ("x/failed", "no link")
    api.put(RESOURCECLAIMS, {**late_claim(), "status": {}})
    await until_async("nothing waits", lambda: not found._waiting)
    api.put(RESOURCECLAIMS, late_claim("gpu-2"))
    await until_async("reported again", devices)
    await until_async("said", lambda: lines[-1] == "attached gpu-2 for claim ns/c")
    running.cancel()


def test_the_claims_own_parameters_go_before_its_classes() -> None:
    def config(source: str, mode: str, *requests: str, driver: str = "gpu.example.com") -> dict[str, Any]:
        opaque = {"driver": driver, "parameters": {"mode": mode}}
        return {"source": source, "requests": list(requests), "opaque": opaque}

    entries = [config("FromClaim", "mine"), config("FromClass", "class"), config("FromClaim", "other", "r2")]
    assert _parameters("gpu.example.com", "r1", entries) == {"mode": "mine"}
    assert _parameters("gpu.example.com", "r2/sub", entries) == {"mode": "other"}
    assert _parameters("nic.example.com", "r1", entries) is None


def test_health_by_file_and_by_step() -> None:
    board = HealthBoard(OPTIONS.all_devices())
    assert board.set(parse_health("gpu-1 Unhealthy ECC error # page 3\n\n# nothing\n")) == [
        "gpu-1 is Unhealthy: ECC error"
    ]
    with pytest.raises(HealthFileInvalid, match="line 1"):
        parse_health("gpu-1")
    step = DriverStep(
        at=Seconds(1), healthy=("gpu-1",), unhealthy=("gpu-2", "gpu-99"), message="hot", remove=("gpu-7",)
    )
    assert board.apply(step) == ["gpu-99 is not there", "gpu-1 is Healthy: hot", "gpu-2 is Unhealthy: hot"]
    assert len(board.devices) == 7
    board.apply(DriverStep(at=Seconds(2), add=("gpu-7",), silent=True))
    assert (len(board.devices), board.silent) == (8, True)
    assert board.health_of(board.devices[2]) == ReportedHealth("Unhealthy", "hot")


LISTED = b"""
devices:
- {name: left, health: Unhealthy, message: ECC, attributes: {slot: {int: 1}}, capacity: {memory: {value: 8Gi}}}
- {name: right, consumesCounters: [{counterSet: card, counters: {parts: {value: '1'}}}]}
sharedCounters: [{name: card, counters: {parts: {value: '2'}}}]
"""


def test_listed_devices_become_slices_as_they_are() -> None:
    script = parse_script("s", LISTED, DriverScript)
    options = options_of(devices=script.devices, shared_counters=script.shared_counters)
    specs = slice_specs(options, options.all_devices(), 1)
    for spec in specs:
        assert created(row("resourceslices"), spec)[1] == []
    written = yaml.safe_load(LISTED)
    assert specs[0]["devices"] == [
        {name: value for name, value in device.items() if name not in ("health", "message")}
        for device in written["devices"]
    ]
    assert specs[1]["sharedCounters"] == written["sharedCounters"]
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    tainted = tuple(DeviceSpec(name=f"d{at}", taints=[taint]) for at in range(65))
    options = options_of(devices=tainted)
    parts = slice_specs(options, options.all_devices(), 1)
    assert [len(part["devices"]) for part in parts] == [64, 1]


def test_claims_are_answered_by_the_first_pattern_that_matches() -> None:
    fault = ClaimFault(claims={"a-*": ClaimAnswer(error="no"), "*": ClaimAnswer(skip=True)})
    assert (answer_for(fault, "a-1").error, answer_for(fault, "b").skip) == ("no", True)
    assert answer_for(CallFault(), "a-1") == ClaimAnswer()


def test_a_wrong_script_is_one_line() -> None:
    good = parse_script(
        "s", b"driver: a.b\ndevices: 2\nsteps: [{at: 1s, unhealthy: [gpu-0]}, {at: 2s, crash: true}]", DriverScript
    )
    assert [step.at for step in good.steps] == [1.0, 2.0]
    for raw, words in (
        (b"devices: 100000", "devices must be 0 to 10000"),
        (b"steps: [{at: 1s, unhealty: [a]}]", "unknown key `unhealty` at steps"),
        (b"calls: {Allocate: {}}", "unknown word 'Allocate'"),
        (b"healthTimeout: 0", "healthTimeout must be 1"),
        (b"calls: {GetInfo: {claims: {a: {skip: true}}}}", "not with GetInfo"),
        (b"steps: [{at: 0s, calls: {NodeWatchResources: [{claims: {a: {}}}]}}]", "not with NodeWatchResources"),
        (b"calls: {NodePrepareResources: {claims: {a: {devices: 99}}}}", "devices must be 0 to 32"),
        (b"shared: true\ndevices: [{name: a}]", "not with a list"),
        (b"devices: [{name: a}, {name: a}]", "the same name"),
        (b"devices: [{name: a, taints: [{key: k}]}]", "taints of a need timeAdded"),
    ):
        with pytest.raises(ScriptInvalid) as wrong:
            parse_script("s", raw, DriverScript)
        assert words in str(wrong.value)


async def test_slices_that_a_restored_backup_lacks_are_published_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_module, "INFORMER_TIMEOUT_S", 0.05)
    api = RestoredApi()
    api.deaf.add(RESOURCESLICES.plural)
    api.put(NODES, {"metadata": {"name": "n1"}})
    publisher = Publisher(OPTIONS, cast("Any", api), lambda line: None)
    publisher.offer(OPTIONS.all_devices())
    task = awaited(publisher.run())
    await until_async("the slices are back", lambda: api.objects[RESOURCESLICES.plural])
    await cancel(task)
    assert api.lost


class CanonicalApi(MemoryApi):
    """Writes a quantity as the API does."""

    def _store(self, resource: Resource, obj: Object) -> Object:
        return super()._store(resource, json.loads(json.dumps(obj).replace('"1024Mi"', '"1Gi"')))


async def test_slices_are_written_once_however_the_api_writes_their_quantities() -> None:
    api = CanonicalApi()
    api.put(NODES, {"metadata": {"name": "n1"}})
    listed = (DeviceSpec(name="a", capacity={"memory": {"value": "1024Mi"}}),)
    publisher = Publisher(options_of(devices=listed), cast("Any", api), lambda line: None)
    publisher.offer([CardDevice("a", 0)])
    task = awaited(publisher.run())
    for writes in (1, 2):
        await until_async("written", lambda writes=writes: api.writes == writes)  # type: ignore[misc]  # called at once
        await heard()
        assert api.writes == writes
        (obj,) = api.objects[RESOURCESLICES.plural].values()
        assert obj["spec"]["devices"] == [{"name": "a", "capacity": {"memory": {"value": "1Gi"}}}]
        api.put(RESOURCESLICES, {**obj, "spec": {**obj["spec"], "devices": []}})
    await cancel(task)


async def test_change_while_a_report_is_sent_is_in_the_next_one_at_once() -> None:
    board = HealthBoard(OPTIONS.all_devices())
    server = DriverServer(OPTIONS, Claims(OPTIONS, cast("Any", MemoryApi())), board, Faults(), print)
    reports = server._watching(WATCH_DEVICES_STATUS)(None, cast("Any", None))
    assert {device.health for device in (await anext(reports)).devices} == {"Healthy"}
    board.set({"gpu-1": ReportedHealth("Unhealthy")})
    async with asyncio.timeout(OPTIONS.script.health_timeout / 6):  # without the change it comes after a third
        assert (await anext(reports)).devices[1].health == "Unhealthy"
