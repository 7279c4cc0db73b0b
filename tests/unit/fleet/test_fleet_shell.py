"""A fleet on an API in memory: what it writes, and what it does when the API fails it."""

import argparse
import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import msgspec
import pytest

from actors.fleet import command
from actors.fleet.faults.control import Answer, Control, socket_path
from actors.fleet.profiles.expand import expand, pool_slices
from actors.fleet.profiles.profile import Profile
from actors.fleet.shell import nodes
from actors.fleet.shell.fleet import Fleet, FleetOptions
from actors.fleet.shell.nodes import NodeTaken
from actors.fleet.shell.pods import reduced_pod
from actors.fleet.workload.objects import ScenarioObjects
from actors.fleet.workload.runner import RunnerOptions, ScenarioRunner
from actors.fleet.workload.scenario import Scenario
from protocols.dra import attacher
from protocols.kinds import views
from protocols.kinds.table import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    SERVICEACCOUNTS,
)
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, labels_of, uid_of, version_of
from protocols.kubeclient.client import ApiClient
from protocols.process.layout import Layout
from protocols.process.scripts import Seconds
from protocols.process.tasks import FAILURES, awaited, cancel
from tests.support.fleet_world import DRIVER, GROUP, RESOURCE, templates
from tests.support.memory_api import MemoryApi, away, conflict
from tests.support.waiting import until_true

POOL = {"name": "shared", "driver": "nic.example.com", "slices": [{"allNodes": True, "devices": [{"name": "nic"}]}]}
UNAVAILABLE = ApiError(500, {"message": "no leader"})


@asynccontextmanager
async def running(api: MemoryApi, nodes: int = 2, pool: Mapping[str, Any] = POOL, **group: Any) -> AsyncIterator[Fleet]:
    """Run a fleet until the block ends, from the moment when its nodes are registered."""
    profile = msgspec.convert(
        {"name": "test", "groups": [{**GROUP, "count": nodes, **group}], "pools": [pool]}, Profile
    )
    options = FleetOptions(name="f", templates=tuple(expand(profile)), pools=tuple(pool_slices(profile)))
    fleet = Fleet(cast("ApiClient", api), options)
    task = awaited(fleet.run())
    ready = awaited(fleet.registry.ready.wait())
    try:
        await asyncio.wait((task, ready), timeout=20, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        assert ready.done()
        yield fleet
    finally:
        await cancel(task, ready)


def bind(api: MemoryApi, name: str, node: str = "gpu-0", **spec: Any) -> Object:
    containers = [{"name": "a", "image": "x", "resources": {"limits": {RESOURCE: "1"}}}]
    metadata = {"name": name, "namespace": "default"}
    return api.put(PODS, {"metadata": metadata, "spec": {"nodeName": node, "containers": containers, **spec}})


def phase(api: MemoryApi, name: str) -> str:
    pod = api.objects["pods"].get(f"default/{name}") or {}
    return str((pod.get("status") or {}).get("phase") or "")


async def test_nodes_have_objects_leases_and_slices_with_the_label_of_the_fleet() -> None:
    api = MemoryApi()
    async with running(api):
        await until_true(lambda: len(api.objects["resourceslices"]) == 3)
    nodes, slices = api.objects["nodes"], api.objects["resourceslices"]
    assert sorted(nodes) == ["gpu-0", "gpu-1"]
    assert nodes["gpu-1"]["status"]["allocatable"][RESOURCE] == "4"
    assert sorted(api.objects["leases"]) == ["kube-node-lease/gpu-0", "kube-node-lease/gpu-1"]
    assert {labels_of(obj)["nodeplane.dev/fleet"] for obj in (*nodes.values(), *slices.values())} == {"f"}
    assert (
        slices["gpu-0-gpu.example.com-0"]["metadata"]["ownerReferences"][0]["uid"] == nodes["gpu-0"]["metadata"]["uid"]
    )
    assert slices["f-pools-0"]["spec"]["allNodes"] is True


async def test_slices_of_a_driver_that_the_profile_lost_go() -> None:
    """The scheduler gave their devices to pods, which no driver prepared."""
    api = MemoryApi()
    lost = {"driver": "old.example.com", "pool": {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}}
    for name, driver in (("gpu-0-old.example.com-0", "old.example.com"), ("mine", DRIVER)):
        metadata = {"name": name, "labels": {"nodeplane.dev/fleet": "f"}}
        api.put(RESOURCESLICES, {"metadata": metadata, "spec": {**lost, "driver": driver}})
    async with running(api):
        await until_true(lambda: "gpu-0-old.example.com-0" not in api.objects["resourceslices"])
    assert "mine" in api.objects["resourceslices"]


async def test_slices_follow_a_profile_with_other_pools_and_fewer_devices() -> None:
    """Driver and pool of a slice cannot change: a patch would be rejected for as long as the fleet runs."""
    api = MemoryApi()
    many = {"driver": DRIVER, "slices": [{"devices": [{"name": "gpu-{i}", "repeat": 300}]}]}
    few = {"driver": DRIVER, "pool": "{node}-p", "slices": [{"devices": [{"name": "gpu-{i}", "repeat": 4}]}]}

    def pools() -> list[tuple[str, str, int]]:
        slices = api.objects["resourceslices"].items()
        return [(name, obj["spec"]["pool"]["name"], len(obj["spec"]["devices"])) for name, obj in sorted(slices)]

    async with running(api, nodes=1, drivers=[many]):
        await until_true(lambda: len(pools()) == 4)
    was = {name: uid_of(obj) for name, obj in api.objects["resourceslices"].items()}
    async with running(api, 1, {**POOL, "name": "other"}, drivers=[few]):
        wanted = [("f-pools-0", "other", 1), ("gpu-0-gpu.example.com-0", "gpu-0-p", 4)]
        await until_true(lambda: pools() == wanted)
    assert not {uid_of(obj) for obj in api.objects["resourceslices"].values()} & set(was.values())


async def test_writes_that_the_user_may_not_make_are_reported_once_a_kind(caplog: pytest.LogCaptureFixture) -> None:
    api = MemoryApi()
    forbidden = (RESOURCESLICES.plural, PODS.plural)
    api.fault = lambda verb, resource, name: (
        ApiError(403, {"message": f"{resource.plural} is forbidden"}) if resource.plural in forbidden else None
    )
    async with running(api):
        for name in ("p", "q"):
            bind(api, name)
        await until_true(lambda: "kind=pod " in caplog.text and "kind=slices " in caplog.text)
        await asyncio.sleep(0.1)
    texts = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sorted(text.partition("kind=")[2].split()[0] for text in texts) == ["pod", "pools", "slices"]


async def test_node_that_somebody_makes_anew_reports_again_unless_it_was_silent() -> None:
    """As `kubectl replace --force` does, after which a kubelet goes on."""
    api = MemoryApi()
    async with running(api) as fleet:
        await until_true(lambda: len(api.objects["resourceslices"]) == 3)
        fleet.nodes["gpu-1"].silent = True
        for name in fleet.nodes:
            api.drop(NODES, name)
            api.drop(LEASES, name, "kube-node-lease")
        await until_true(lambda: not any(node.object for node in fleet.nodes.values()))
        labels = {"nodeplane.dev/fleet": "f"}
        made = [uid_of(api.put(NODES, {"metadata": {"name": name, "labels": labels}})) for name in fleet.nodes]
        await until_true(lambda: list(api.objects["leases"]) == ["kube-node-lease/gpu-0"])
        owner = api.objects["leases"]["kube-node-lease/gpu-0"]["metadata"]["ownerReferences"][0]
        assert owner["uid"] == made[0]
        await until_true(lambda: bool(api.objects["nodes"]["gpu-0"].get("status")))
        assert fleet.nodes["gpu-1"].silent


LOST, ADDED = "example.com/lost", "example.com/added"


def amounts_of(api: MemoryApi, name: str) -> tuple[str, str]:
    status = api.objects["nodes"]["gpu-0"]["status"]
    return status["capacity"].get(name), status["allocatable"].get(name)


async def test_resources_that_neither_profile_nor_another_client_has_are_zero() -> None:
    """As a kubelet's: those of a plugin that the profile lost are 0, those that another client adds are allocatable."""
    api = MemoryApi()
    async with running(api, plugins=[{"resource": LOST, "devices": 2}]):
        assert amounts_of(api, LOST) == ("2", "2")
    async with running(api):
        await until_true(lambda: amounts_of(api, LOST) == ("0", "0"))
        await api.patch(NODES, "gpu-0", "", {"status": {"capacity": {ADDED: "4"}}}, subresource="status")
        await until_true(lambda: amounts_of(api, ADDED) == ("4", "4"))
        for name, resource in (("p", LOST), ("q", ADDED)):
            requests = {"limits": {resource: "1"}}
            bind(api, name, containers=[{"name": "a", "image": "x", "resources": requests}])
        await until_true(lambda: (phase(api, "p"), phase(api, "q")) == ("Failed", "Running"))


async def test_pod_is_rejected_by_the_node_as_it_is_now_alone() -> None:
    """A label is new, the scheduler has seen it, and the watch of nodes is behind that of pods."""
    api = MemoryApi()
    async with running(api):
        api.deaf.add("nodes")
        await api.patch(NODES, "gpu-0", "", {"metadata": {"labels": {"new": "yes"}}})
        bind(api, "p", nodeSelector={"new": "yes"})
        bind(api, "q", nodeSelector={"new": "no"})
        await until_true(lambda: (phase(api, "p"), phase(api, "q")) == ("Running", "Failed"))


async def test_conditions_get_a_heartbeat_when_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "REPORT_S", 0.05)
    api = MemoryApi()
    beats: set[str] = set()
    async with running(api, nodes=1):

        def beaten() -> bool:
            conditions = api.objects["nodes"]["gpu-0"]["status"]["conditions"]
            beats.update(condition["lastHeartbeatTime"] for condition in conditions)
            return len(beats) > 1

        await until_true(beaten)


def pool_slices_of(api: MemoryApi) -> dict[str, tuple[int, int]]:
    """Return generation and devices of each slice of pools."""
    found = {name: obj["spec"] for name, obj in api.objects["resourceslices"].items() if "-pools-" in name}
    return {name: (spec["pool"]["generation"], len(spec["devices"])) for name, spec in found.items()}


async def test_pool_of_another_profile_is_published_as_a_new_generation() -> None:
    api = MemoryApi()
    large = {**POOL, "slices": [{"allNodes": True, "devices": [{"name": "nic-{i}", "repeat": 200}]}]}
    async with running(api, pool=large):
        await until_true(lambda: pool_slices_of(api) == {"f-pools-0": (1, 128), "f-pools-1": (1, 72)})
    for _ in range(2):  # the same profile again changes nothing
        async with running(api):
            await until_true(lambda: pool_slices_of(api) == {"f-pools-0": (2, 1)})
    chosen = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    async with running(api, pool={**POOL, "slices": [{"nodeSelector": chosen, "devices": [{"name": "nic"}]}]}):
        await until_true(lambda: "nodeSelector" in api.objects["resourceslices"]["f-pools-0"]["spec"])
    assert "allNodes" not in api.objects["resourceslices"]["f-pools-0"]["spec"]


async def test_pod_runs_and_goes_when_it_is_deleted() -> None:
    api = MemoryApi()
    async with running(api) as fleet:
        bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running")
        await api.delete(PODS, "p", "default")
        await until_true(lambda: "default/p" not in api.objects["pods"])
        await until_true(lambda: not fleet.pods.pods)


async def test_pod_of_another_node_is_left_alone() -> None:
    api = MemoryApi()
    async with running(api) as fleet:
        bind(api, "other", node="real")
        bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running")
        assert len(fleet.pods.pods) == 1
    assert phase(api, "other") == ""


async def test_status_that_the_api_did_not_take_is_sent_again() -> None:
    api = MemoryApi()
    failures = [UNAVAILABLE, UNAVAILABLE]
    async with running(api):
        api.fault = lambda verb, resource, name: failures.pop() if failures and resource is PODS else None
        bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running")
    assert not failures


async def test_next_run_takes_up_nodes_and_pods_as_they_are() -> None:
    api = MemoryApi()
    async with running(api):
        bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running")
    before = api.objects["pods"].pop("default/p")
    bind(api, "q")
    api.objects["pods"]["default/p"] = before  # it is listed after q, which is new
    async with running(api) as fleet:
        await until_true(lambda: phase(api, "q") == "Running")
        await until_true(lambda: len(fleet.pods.pods) == 2)
    assert api.objects["pods"]["default/p"]["status"] == before["status"]
    ids = [
        api.objects["pods"][f"default/{name}"]["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
        for name in "pq"
    ]
    assert ids[0] != ids[1]


class Dropping(MemoryApi):
    """Does not know the health of devices: a field of its statuses is dropped, or the status rejected."""

    rejects = False

    def _update(
        self, resource: Any, obj: Object, namespace: str, subresource: str, patched: Object | None = None
    ) -> Object:
        obj = copy.deepcopy(obj)
        for status in (obj.get("status") or {}).get("containerStatuses") or ():
            if status.pop("allocatedResourcesStatus", None) and self.rejects:
                raise ApiError(422, {"message": "status.containerStatuses[0].allocatedResourcesStatus: Invalid value"})
        return super()._update(resource, obj, namespace, subresource, patched)


@pytest.mark.parametrize("rejects", [False, True])
async def test_status_that_the_api_shows_in_its_own_way_is_sent_once(rejects: bool) -> None:
    api = Dropping()
    api.rejects = rejects
    async with running(api) as fleet:
        bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running" and fleet.pods.writes > 0)
        writes = fleet.pods.writes
        await asyncio.sleep(0.3)
        assert fleet.pods.writes <= writes + 1
        await api.delete(PODS, "p", "default")
        await until_true(lambda: "default/p" not in api.objects["pods"])


async def test_status_that_the_api_rejects_is_given_up_and_the_pod_ends() -> None:
    api = MemoryApi()
    rejected = ApiError(422, {"message": "status: Invalid value"})
    async with running(api):
        api.fault = lambda verb, resource, name: rejected if verb == "patch" and resource is PODS else None
        bind(api, "p")
        await api.delete(PODS, "p", "default")
        await until_true(lambda: "default/p" not in api.objects["pods"])


async def test_pod_is_not_forgotten_for_a_conflict() -> None:
    api, failures = MemoryApi(), [conflict()]
    async with running(api):
        api.fault = lambda verb, resource, name: failures.pop() if failures and resource is PODS else None
        bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running")


async def test_lease_whose_namespace_is_missing_is_tried_again_with_pauses() -> None:
    api, asked = MemoryApi(), list[str]()
    missing = [ApiError(404, {"message": "no namespace", "reason": "NotFound"})]

    def fault(verb: str, resource: Any, name: str) -> ApiError | None:
        if resource is LEASES:
            asked.append(verb)
            return missing[0] if missing else None
        return None

    api.fault = fault
    asyncio.get_running_loop().call_later(1.0, missing.clear)
    async with running(api):
        assert len(asked) < 20
    assert len(api.objects["leases"]) == 2


async def test_pods_of_a_restored_backup_are_taken_whatever_their_version() -> None:
    api = MemoryApi()
    async with running(api) as fleet:
        old = bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running")
        written = version_of(api.objects["pods"]["default/p"])
        await until_true(lambda: version_of(fleet.pods._informer.items["default/p"]) == written)
        api.objects["pods"]["default/p"] = old
        fleet.pods._doubt()
        fleet.pods.on_update({}, reduced_pod(cast("views.Pod", old)))
        await until_true(lambda: phase(api, "p") == "Running")


async def test_slices_of_a_node_that_registers_again_are_owned_by_the_new_one() -> None:
    api = MemoryApi()
    async with running(api) as fleet:
        await until_true(lambda: len(api.objects["resourceslices"]) == 3)
        before = api.objects["nodes"]["gpu-0"]["metadata"]["uid"]
        api.drop(NODES, "gpu-0")
        node = fleet.nodes["gpu-0"]
        await until_true(lambda: node.silent)
        fleet.registry.resume(node)
        await until_true(lambda: "gpu-0" in api.objects["nodes"])
        uid = api.objects["nodes"]["gpu-0"]["metadata"]["uid"]
        await until_true(
            lambda: (
                api.objects["resourceslices"]["gpu-0-gpu.example.com-0"]["metadata"]["ownerReferences"][0]["uid"] == uid
            )
        )
    assert uid != before


async def test_progress_is_known_while_the_api_is_away() -> None:
    api = MemoryApi()
    api.fault = lambda verb, resource, name: away()
    fleet = Fleet(cast("ApiClient", api), FleetOptions(name="f", templates=tuple(templates())))
    task = awaited(fleet.run())
    try:
        assert not await fleet.registry.wait_ready(0.1)
        assert fleet.registry.progress() == "0 of 2 nodes registered"
    finally:
        await cancel(task)


async def test_nodes_that_only_an_earlier_run_had_are_counted() -> None:
    api = MemoryApi()
    async with running(api, nodes=3):
        pass
    async with running(api, nodes=1) as fleet:
        await until_true(lambda: fleet.registry.left_over == 2)


async def test_node_of_another_fleet_is_not_taken() -> None:
    api = MemoryApi()
    api.put(NODES, {"metadata": {"name": "gpu-0", "labels": {"nodeplane.dev/fleet": "theirs"}}})
    with pytest.raises(NodeTaken, match="node gpu-0 exists and is not of fleet f"):
        async with running(api):
            pass
    assert labels_of(api.objects["nodes"]["gpu-0"])["nodeplane.dev/fleet"] == "theirs"


async def test_node_that_was_deleted_does_not_come_back() -> None:
    api = MemoryApi()
    async with running(api) as fleet:
        api.drop(NODES, "gpu-0")
        await until_true(lambda: fleet.nodes["gpu-0"].silent)
        bind(api, "p")
        bind(api, "q", node="gpu-1")
        await until_true(lambda: phase(api, "q") == "Running")
    assert phase(api, "p") == ""


async def test_device_of_a_pool_is_prepared_on_every_node() -> None:
    api = MemoryApi()
    async with running(api):
        pod = bind(api, "p", resourceClaims=[{"name": "nic", "resourceClaimName": "c"}])
        result = {"request": "r", "driver": "nic.example.com", "pool": "shared", "device": "nic"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"uid": pod["metadata"]["uid"]}]}
        api.put(RESOURCECLAIMS, {"metadata": {"name": "c", "namespace": "default"}, "status": status})
        await until_true(lambda: phase(api, "p") == "Running")


async def test_broken_device_is_an_event_of_the_pod_on_its_node() -> None:
    api = MemoryApi()
    async with running(api) as fleet:
        bind(api, "p")
        await until_true(lambda: phase(api, "p") == "Running")
        node = fleet.nodes["gpu-0"]
        node.devices.set_plugin_health(RESOURCE, ["gpu-0"], False, "too hot", 1)
        fleet.pods.wake_node(node)
        await until_true(lambda: [event["reason"] for event in api.objects["events"].values()] == ["DeviceUnhealthy"])
    (event,) = api.objects["events"].values()
    assert event["source"] == {"component": "kubelet", "host": "gpu-0"}
    assert event["involvedObject"]["name"] == "p"
    assert event["involvedObject"]["fieldPath"] == "spec.containers{a}"


async def test_event_about_a_sidecar_names_it_among_the_init_containers() -> None:
    api = MemoryApi()
    limits = {"limits": {RESOURCE: "1"}}
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "resources": limits}
    async with running(api) as fleet:
        bind(api, "p", initContainers=[sidecar], containers=[{"name": "a", "image": "x"}])
        await until_true(lambda: phase(api, "p") == "Running")
        node = fleet.nodes["gpu-0"]
        node.devices.set_plugin_health(RESOURCE, ["gpu-0"], False, "too hot", 1)
        fleet.pods.wake_node(node)
        await until_true(lambda: bool(api.objects["events"]))
    (event,) = api.objects["events"].values()
    assert event["involvedObject"]["fieldPath"] == "spec.initContainers{side}"


class Bound(MemoryApi):
    """Binds every pod to the one node at once, and has the service account of each namespace."""

    most = 0
    """Pods of the steady phase that were there at once."""

    async def create(self, resource: Any, obj: Object, namespace: str = "", subresource: str = "", **_: Any) -> Object:
        created = await super().create(resource, obj, namespace, subresource)
        if resource is NAMESPACES:
            self.put(SERVICEACCOUNTS, {"metadata": {"name": "default", "namespace": obj["metadata"]["name"]}})
        self.most = max(self.most, sum("/steady-" in key for key in self.objects["pods"]))
        if resource is PODS:
            return self.put(PODS, {**created, "spec": {**created["spec"], "nodeName": "gpu-0"}})
        return created

    async def delete_collection(self, resource: Any, namespace: str = "") -> None:
        for key in list(self.objects[resource.plural]):
            if key.startswith(f"{namespace}/"):
                await self.delete(resource, key.partition("/")[2], namespace)


async def test_scenario_fills_the_nodes_lets_pods_come_and_go_and_leaves_nothing() -> None:
    scenario = Scenario(
        profile="x", nodes=1, resource=RESOURCE, per_node=4, fill=0.5, rate=10, seconds=Seconds(0.5), lives=Seconds(0.1)
    )
    api = Bound()
    async with running(api, nodes=1) as fleet:
        runner = ScenarioRunner(fleet, scenario, RunnerOptions(name="f"), lambda text: None)
        fill, steady = await asyncio.wait_for(runner.run(), 20)
        await runner.clean()
        await until_true(lambda: not fleet.pods.pods)
    assert (fill.phase, fill.pods, fill.running) == ("fill", 2, 2)
    assert (steady.phase, steady.pods, steady.running) == ("steady", 5, 5)
    assert 0 < steady.p50 <= steady.p99 < 5
    assert steady.cpu["fleet"] > 0
    assert not api.objects["pods"]


async def test_scenario_counts_a_pod_that_its_node_rejects_as_one_that_did_not_run() -> None:
    scenario = Scenario(profile="x", nodes=1, resource=RESOURCE, per_node=6, fill=1, rate=0)
    async with running(Bound(), nodes=1) as fleet:
        runner = ScenarioRunner(fleet, scenario, RunnerOptions(name="f"), lambda text: None)
        (fill,) = await asyncio.wait_for(runner.run(), 20)
        await runner.clean()
    assert (fill.pods, fill.running) == (6, 4)


async def test_scenario_whose_api_is_away_is_not_cleaned_up(monkeypatch: pytest.MonkeyPatch) -> None:
    api, said = Bound(), list[str]()
    async with running(api, nodes=1) as fleet:
        runner = ScenarioRunner(fleet, Scenario(profile="x", nodes=1), RunnerOptions(name="f"), said.append)
        with monkeypatch.context() as patch:
            patch.setattr(api, "get", AsyncMock(side_effect=away()))
            with pytest.raises(ApiAway):
                await runner.clean()
    (line,) = said
    assert line.startswith("what the scenario made stays, with namespace fleet-f-")


async def test_pods_that_follow_each_other_are_never_more_than_asked_for() -> None:
    scenario = Scenario(
        profile="x",
        nodes=1,
        resource=RESOURCE,
        per_node=4,
        fill=0.5,
        together=2,
        seconds=Seconds(1),
        lives=Seconds(0.02),
    )
    api = Bound()
    async with running(api, nodes=1) as fleet:
        runner = ScenarioRunner(fleet, scenario, RunnerOptions(name="f"), lambda text: None)
        _, steady = await asyncio.wait_for(runner.run(), 20)
        await runner.clean()
        await until_true(lambda: not fleet.pods.pods)
    assert api.most == 2
    assert steady.pods == steady.running > 2
    assert not api.objects["pods"]


async def test_pods_that_follow_each_other_go_on_when_some_are_refused() -> None:
    scenario = Scenario(
        profile="x", nodes=1, resource=RESOURCE, fill=0, together=2, seconds=Seconds(0.3), lives=Seconds(0.01)
    )
    api = Bound()
    refused = iter([UNAVAILABLE] * 3)
    async with running(api, nodes=1) as fleet:
        api.fault = lambda verb, resource, name: next(refused, None) if verb == "create" and resource is PODS else None
        runner = ScenarioRunner(fleet, scenario, RunnerOptions(name="f"), lambda text: None)
        runner.ends_s = 0.5
        (steady,) = await asyncio.wait_for(runner.run(), 20)
        await runner.clean()
    assert steady.running == steady.pods - 3 > 0


@pytest.mark.parametrize(
    ("verb", "kind", "running_pods"), [("create", "creation of a pod", 0), ("delete", "deletion of a pod", 2)]
)
async def test_scenario_counts_a_pod_that_the_api_refuses(verb: str, kind: str, running_pods: int) -> None:
    scenario = Scenario(
        profile="x", nodes=1, resource=RESOURCE, per_node=4, fill=0, rate=20, seconds=Seconds(0.1), lives=Seconds(0.1)
    )
    api, before = Bound(), FAILURES[kind]
    async with running(api, nodes=1) as fleet:
        api.fault = lambda asked, resource, name: UNAVAILABLE if asked == verb and resource is PODS else None
        runner = ScenarioRunner(fleet, scenario, RunnerOptions(name="f"), lambda text: None)
        runner.ends_s = 0.5
        (steady,) = await asyncio.wait_for(runner.run(), 20)
        await until_true(lambda: FAILURES[kind] == before + 2)
    assert steady.running == running_pods


LATE = {"bindingConditions": ["x/attached"], "bindingFailureConditions": ["x/failed"]}
LATE_DRIVER = {"driver": DRIVER, "slices": [{"devices": [{"name": "gpu-{i}", "repeat": 4, **LATE}]}]}


def allocate(api: MemoryApi, name: str, node: str, device: str) -> None:
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device, **LATE}
    status = {"allocation": {"devices": {"results": [result]}}}
    api.put(RESOURCECLAIMS, {"metadata": {"name": name, "namespace": "default"}, "status": status})


def reported(api: MemoryApi, name: str) -> list[str]:
    devices = api.objects["resourceclaims"][f"default/{name}"]["status"].get("devices") or ()
    return [condition["type"] for device in devices for condition in device["conditions"]]


async def test_nodes_attach_devices_that_work_once_they_and_their_driver_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attacher, "AWAY_S", 0.01)
    api = MemoryApi()
    async with running(api, 3, drivers=[LATE_DRIVER]) as fleet:
        nodes = fleet.nodes
        nodes["gpu-0"].devices.set_driver_health(DRIVER, [f"{DRIVER}/gpu-0/gpu-1"], "Unhealthy", "no link", 0)
        nodes["gpu-1"].silent = True
        nodes["gpu-2"].devices.connect_driver(DRIVER, False, 0)
        for name, node, device in (("bad", 0, 1), ("silent", 1, 0), ("gone", 2, 0), ("good", 0, 0)):
            allocate(api, name, f"gpu-{node}", f"gpu-{device}")
        await until_true(lambda: reported(api, "good") == ["x/attached"])
        await until_true(lambda: reported(api, "bad") == ["x/failed"])
        assert reported(api, "silent") == reported(api, "gone") == []
        nodes["gpu-1"].silent = False
        nodes["gpu-2"].devices.connect_driver(DRIVER, True, 0)
        await until_true(lambda: reported(api, "silent") == reported(api, "gone") == ["x/attached"])


class Counting(MemoryApi):
    """Counts the deletions that are under way."""

    now = most = 0

    async def delete(self, *words: Any, **options: Any) -> Object:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().delete(*words, **options)
        finally:
            self.now -= 1


async def test_what_a_killed_scenario_left_is_deleted_but_nodes_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its taint rule held for later runs as well, and pods went to its nodes, which nobody played."""
    api, labels = MemoryApi(), {"nodeplane.dev/fleet": "f"}
    objects = ScenarioObjects(Scenario(profile="x", nodes=1, driver=DRIVER, taint={"key": "a"}), "f", "fleet-f-1")
    left = {
        DEVICECLASSES: objects.device_class(), DEVICETAINTRULES: objects.taint_rule(), NAMESPACES: objects.namespace()
    }  # fmt: skip
    for resource, obj in left.items():
        api.put(resource, obj)
        api.put(resource, {"metadata": {"name": "of-others"}})
    for name in ("gone", "runs"):
        api.put(NODES, {"metadata": {"name": name, "labels": labels}})
        api.put(RESOURCESLICES, {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": name}})
    api.put(RESOURCESLICES, {"metadata": {"name": "pool", "labels": labels}, "spec": {"allNodes": True}})
    assert await command._delete(cast("ApiClient", api), "f", {"runs"}) == 1
    assert [list(api.objects[resource.plural]) for resource in left] == [["of-others"]] * 3
    assert (list(api.objects["nodes"]), list(api.objects["resourceslices"])) == (["runs"], ["runs", "pool"])
    forbid = {DEVICETAINTRULES}
    listed = api.list

    async def some(resource: Any, *words: Any, **query: Any) -> Object:
        if resource in forbid:
            raise ApiError(403, {"message": "forbidden"})
        return await listed(resource, *words, **query)

    monkeypatch.setattr(api, "list", some)
    assert await command._delete(cast("ApiClient", api), "f") == 1
    forbid.add(NODES)
    with pytest.raises(ApiError, match="forbidden"):
        await command._delete(cast("ApiClient", api), "f")
    assert (api.objects["nodes"], api.objects["resourceslices"]) == ({}, {})


async def test_deletions_of_a_fleet_are_made_some_at_once() -> None:
    """The deadline of a deletion begins with it: those that waited for sixty thousand others failed."""
    api = Counting()
    for number in range(2 * command.DELETERS):
        api.put(NODES, {"metadata": {"name": f"n-{number}", "labels": {"nodeplane.dev/fleet": "f"}}})
    assert await command._delete(cast("ApiClient", api), "f") == 2 * command.DELETERS
    assert not api.objects["nodes"]
    assert 1 < api.most <= command.DELETERS


async def test_deletion_of_a_fleet_that_runs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def api(*words: Any) -> AsyncIterator[MemoryApi]:
        yield MemoryApi()

    monkeypatch.setattr(command, "api", api)
    layout = Layout(tmp_path, tmp_path / "kubelet")
    control = Control(socket_path(layout, "f"), lambda order: Answer())
    await control.start()
    assert await command.delete_fleet(argparse.Namespace(name="f"), layout) == 0
    control.stop()
    assert "a run of fleet f goes on" in capsys.readouterr().err
    assert await command.delete_fleet(argparse.Namespace(name="f"), layout) == 0
    assert "goes on" not in capsys.readouterr().err
