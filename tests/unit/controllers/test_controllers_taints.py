"""Device taint eviction: which pods, when, with which reasons, and the status of rules."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from actors.controllers.common.informers import ChangeHandler
from actors.controllers.common.pod_eviction import DEVICE_TAINTS, EvictionMetrics
from actors.controllers.taints.eviction import EvictionController
from protocols.dra.decode import patch_of, slice_of
from protocols.dra.tracker.tracker import Tracker
from protocols.kinds.table import DEVICETAINTRULES, PODS, RESOURCECLAIMS
from protocols.kube.meta import Object, condition, meta
from protocols.kube.times import format_time, now
from protocols.messages.trace import SpanBatch, SpanQuery
from protocols.trace import RECORDER
from tests.support.memory_api import Events, Follower, MemoryApi, away, conflict

DRIVER = "d.example.com"


class World:
    def __init__(self) -> None:
        self.api, self.events = MemoryApi(), Events()
        self.tracker = Tracker()
        fake: Any = self.api
        recorder: Any = self.events
        metrics = EvictionMetrics(CollectorRegistry(), DEVICE_TAINTS)
        evictor = self.evictor = EvictionController(fake, recorder, metrics, logging.getLogger("test"))
        self.followers = [
            Follower(self.api, RESOURCECLAIMS, ChangeHandler(evictor.claim_changed, evictor.claim_gone)),
            Follower(self.api, PODS, ChangeHandler(evictor.pod_changed, evictor.pod_gone)),
            Follower(self.api, DEVICETAINTRULES, ChangeHandler(evictor.rule_changed, evictor.rule_gone)),
        ]
        evictor.users.claims, evictor.users.pods = self.followers[0].items, self.followers[1].items

    def publish(self, *taints: Object, name: str = "x", slice_name: str = "s", generation: int = 1) -> None:
        """The only device of a slice, with these taints."""
        device = {"name": name, "taints": list(taints)}
        pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [device]}
        self.tracker.put_slice(slice_of({"metadata": {"name": slice_name}, "spec": spec}))
        self.evictor.slices_changed(self.tracker.settle())

    def withdraw(self, slice_name: str) -> None:
        self.tracker.drop_slice(slice_name)
        self.evictor.slices_changed(self.tracker.settle())

    def claim(self, name: str, *pods: str, tolerations: Any = (), device: str = "x", **metadata: Any) -> None:
        result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device, "tolerations": list(tolerations)}
        reserved = [{"resource": "pods", "name": pod, "uid": f"u-{pod}"} for pod in pods]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        self.api.put(
            RESOURCECLAIMS, {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": {}, "status": status}
        )

    def pod(self, name: str, claim: str, node: str = "n1", **entry: str) -> None:
        entries = [{"name": "e", **(entry or {"resourceClaimName": claim})}]
        status = {"phase": "Running", "resourceClaimStatuses": [{"name": "e", "resourceClaimName": claim}]}
        metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}"}
        spec = {"nodeName": node, "resourceClaims": entries}
        self.api.put(PODS, {"metadata": metadata, "spec": spec, "status": status})

    def rule(self, effect: str = "NoExecute", generation: int = 1, selector: Any = "driver", **taint: Any) -> None:
        taint = {"key": "k", "value": "v", "effect": effect, "timeAdded": now(), **taint}
        wanted = {"driver": DRIVER} if selector == "driver" else selector
        spec = {"taint": taint, **({} if wanted is None else {"deviceSelector": wanted})}
        self.api.put(DEVICETAINTRULES, {"metadata": {"name": "rule", "generation": generation}, "spec": spec})

    def rule_condition(self) -> tuple[str, str, str]:
        found = condition(self.api.objects["devicetaintrules"]["rule"], "EvictionInProgress") or {}
        return found.get("reason", ""), found.get("status", ""), found.get("message", "")

    def gone(self, name: str) -> bool:
        pod = self.api.objects["pods"].get(f"ns/{name}")
        return pod is None or "deletionTimestamp" in meta(pod)

    def said(self) -> list[str]:
        return [message for _, _, message in self.events.told]

    async def until(self, what: str, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + 60
        while not holds() or any(follower.behind for follower in self.followers):
            assert time.monotonic() < end, (what, self.rule_condition())
            await self.turn()

    async def turn(self, seconds: float = 0.002) -> None:
        for follower in self.followers:
            follower.read(100)
        await asyncio.sleep(seconds)


@asynccontextmanager
async def running_evictor() -> AsyncIterator[World]:
    world = World()
    task = asyncio.create_task(world.evictor.run())
    try:
        async with asyncio.timeout(150):
            yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def steps(uid: str, name: str) -> list[dict[str, str]]:
    """Return the attributes of a pod's steps of one name."""
    batch = msgspec.msgpack.decode(msgspec.msgpack.encode(RECORDER.answer(SpanQuery(pod=uid), 1)), type=SpanBatch)
    return [span.attributes for span in batch.spans if span.name == name]


def taint(effect: str = "NoExecute", added: float = 0.0) -> Object:
    return {"key": "k", "value": "v", "effect": effect, "timeAdded": format_time(added or time.time())}


@pytest.mark.scenario("S41")
async def test_rule_evicts_pods_using_selected_devices() -> None:
    async with running_evictor() as world:
        world.publish()
        world.claim("c", "p")
        world.pod("p", "c")
        world.api.lose = lambda verb, resource, name: None
        world.rule()
        await world.until("p is deleted", lambda: world.gone("p"))
        pod = world.api.objects["pods"]["ns/p"]
        why = condition(pod, "DisruptionTarget") or {}
        assert (why["status"], why["reason"], why["message"]) == (
            "True",
            "DeletionByDeviceTaintManager",
            "Device Taint manager: deleting due to NoExecute taint",
        )
        assert world.events.told == [("ns/p", "DeviceTaintManagerEviction", "Marking for deletion")]
        cause = {"taint": "k=v:NoExecute", "device": f"{DRIVER}/n1/x", "rule": "rule"}
        await world.until("the trace names the taint", lambda: cause in steps("u-p", "evict"))


async def test_eviction_by_a_patch_names_it_with_its_priority() -> None:
    async with running_evictor() as world:
        world.evictor.use_patches(world.tracker.inputs.patches)
        for name, priority, driver in (("burnt", 7, DRIVER), ("low", 3, DRIVER), ("other", 9, "e.example.com")):
            devices = {"priority": priority, "filter": {"driver": driver}, "taints": [taint(added=1.0)]}
            metadata = {"name": name, "creationTimestamp": format_time(1.0)}
            world.tracker.put_patch(patch_of({"metadata": metadata, "spec": {"devices": devices}}))
        world.publish()
        world.claim("c", "patched")
        world.pod("patched", "c")
        await world.until("the pod is deleted", lambda: world.gone("patched"))
        cause = {"taint": "k=v:NoExecute", "device": f"{DRIVER}/n1/x", "patch": "burnt", "priority": "7"}
        await world.until("the trace names the patch", lambda: cause in steps("u-patched", "evict"))


async def test_eviction_by_a_taint_of_the_driver_names_the_driver() -> None:
    async with running_evictor() as world:
        world.publish(taint(added=1.0))
        world.claim("c", "published")
        world.pod("published", "c")
        await world.until("the pod is deleted", lambda: world.gone("published"))
        cause = {"taint": "k=v:NoExecute", "device": f"{DRIVER}/n1/x", "driver": DRIVER}
        await world.until("the trace names the driver", lambda: cause in steps("u-published", "evict"))


@pytest.mark.parametrize("effect", ["NoSchedule", "None", "Later"])
async def test_only_no_execute_evicts(effect: str) -> None:
    async with running_evictor() as world:
        world.publish(taint(effect))
        world.claim("c", "p")
        world.pod("p", "c")
        await world.until("all is read", lambda: True)
        await world.turn(0.05)
        assert not world.gone("p")


async def test_driver_taint_evicts_unless_removed_in_time() -> None:
    async with running_evictor() as world:
        world.publish(taint())
        world.claim("c", "p", tolerations=[{"operator": "Exists", "tolerationSeconds": 600}])
        world.pod("p", "c")
        await world.until("it has a deadline", lambda: world.evictor._pending)
        world.publish()
        await world.until("it is called off", lambda: world.said() == ["Cancelling deletion"])
        assert not world.gone("p")
        world.publish(taint())
        world.claim("c", "p", tolerations=[{"operator": "Exists", "tolerationSeconds": 0}])
        await world.until("p is deleted", lambda: world.gone("p"))


async def test_pod_stays_if_one_of_its_tolerations_lasts() -> None:
    async with running_evictor() as world:
        passing = {"operator": "Exists", "tolerationSeconds": 600}
        world.claim("c", "p", tolerations=[passing])
        world.pod("p", "c")
        world.publish(taint())
        await world.until("it has a deadline", lambda: world.evictor._pending)
        world.claim("c", "p", tolerations=[passing, {"operator": "Exists"}])
        await world.until("it is called off", lambda: not world.evictor._pending)


async def test_taint_counts_while_its_slice_is_of_the_newest_generation() -> None:
    async with running_evictor() as world:
        world.claim("c", "p", tolerations=[{"operator": "Exists", "tolerationSeconds": 600}])
        world.pod("p", "c")
        world.publish(taint())
        await world.until("it has a deadline", lambda: world.evictor._pending)
        world.publish(name="other", slice_name="t", generation=2)
        await world.until("it is called off", lambda: world.said() == ["Cancelling deletion"])
        world.withdraw("t")
        await world.until("it has one again", lambda: world.evictor._pending)


@pytest.mark.scenario("S42")
async def test_toleration_seconds_start_at_taint_time() -> None:
    async with running_evictor() as world:
        world.publish()
        bears = [{"operator": "Exists", "tolerationSeconds": 2}]
        world.claim("c", "p", tolerations=bears)
        world.pod("p", "c")
        world.rule()
        began = int(time.time())
        await world.until("p is deleted", lambda: world.gone("p"))
        assert time.time() >= began + 2
        world.claim("past", "q", tolerations=bears)
        world.rule(generation=2, timeAdded=format_time(time.time() - 60))
        world.pod("q", "past")
        await world.until("the time was over before", lambda: world.gone("q"))


@pytest.mark.scenario("S43")
async def test_rule_without_effect_reports_dry_run() -> None:
    async with running_evictor() as world:
        world.publish()
        world.claim("c", "p", "q")
        world.pod("p", "c")
        world.pod("q", "c")
        world.rule("None")
        await world.until("the dry run", lambda: world.rule_condition()[0])
        assert world.rule_condition() == (
            "NoEffect",
            "False",
            "1 published device selected. 1 allocated device selected. 2 pods would be evicted in 1 namespace if the"
            " effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to"
            " trigger an update.",
        )
        world.api.fault = lambda verb, resource, name: away() if verb == "delete" else None
        world.rule("NoExecute", generation=2)
        await world.until("in progress", lambda: world.rule_condition()[0] == "PodsPendingEviction")
        assert world.rule_condition()[1:] == ("True", "2 pods need to be evicted in 1 namespace.")
        world.api.fault = lambda verb, resource, name: None
        await world.until("both go", lambda: world.gone("p") and world.gone("q"))
        world.rule("NoExecute", generation=3)
        await world.until("it is written", lambda: world.rule_condition()[0] == "Completed")
        assert world.rule_condition()[1:] == ("False", "2 pods evicted since starting the controller.")
        world.rule("NoSchedule", generation=4)
        await world.until("another effect", lambda: world.rule_condition()[0] == "OtherEffect")
        assert world.rule_condition()[2] == "Eviction only happens for the NoExecute effect."
        assert len(world.api.objects["devicetaintrules"]["rule"]["status"]["conditions"]) == 1


async def test_rule_without_pods_reports_not_started() -> None:
    async with running_evictor() as world:
        world.rule()
        await world.until("it is written", lambda: world.rule_condition() == ("NotStarted", "False", ""))
        writes = world.api.writes
        for _ in range(5):
            await world.turn()
        assert world.api.writes == writes, "nothing is written that is there already"


@pytest.mark.scenario("S44")
async def test_unselected_pods_stay() -> None:
    async with running_evictor() as world:
        world.publish(taint())
        world.claim("of-old", "replaced")
        world.pod("replaced", "of-old")
        replaced = world.api.objects["pods"]["ns/replaced"]
        world.api.put(PODS, {**replaced, "metadata": {**meta(replaced), "uid": "another"}})
        world.claim("early", "unplaced")
        world.pod("unplaced", "early", node="")
        world.claim("borne", "bearing", tolerations=[{"key": "k", "operator": "Equal", "value": "v"}])
        world.pod("bearing", "borne")
        world.claim("foreign", "posing", ownerReferences=[])
        world.pod("posing", "foreign", resourceClaimTemplateName="t")
        await world.until("all is read", lambda: True)
        await world.turn(0.05)
        assert not any(world.gone(each) for each in ("replaced", "unplaced", "bearing", "posing"))


@pytest.mark.scenario("S45")
@pytest.mark.parametrize(("selector", "goes"), [(None, False), ({}, True), ({"device": "y"}, False)])
async def test_selector_matches_named_devices(selector: Any, goes: bool) -> None:
    async with running_evictor() as world:
        world.claim("c", "p")
        world.pod("p", "c")
        world.rule(selector=selector)
        await world.until("all is read", lambda: world.rule_condition()[0])
        await world.until("as it should", lambda: world.gone("p") == goes)
        await world.turn(0.02)
        assert world.gone("p") == goes, "also of a device that no slice has any more"


async def test_finished_pod_is_not_pending() -> None:
    async with running_evictor() as world:
        world.publish(taint())
        world.claim("c", "p", tolerations=[{"operator": "Exists", "tolerationSeconds": 600}])
        world.pod("p", "c")
        await world.until("it has a deadline", lambda: world.evictor._pending)
        pod = world.api.objects["pods"]["ns/p"]
        world.api.put(PODS, {**pod, "status": {**pod["status"], "phase": "Succeeded"}})
        await world.until("it has none", lambda: not world.evictor._pending)


async def test_evicted_pod_that_a_backup_brings_back_is_evicted_again() -> None:
    async with running_evictor() as world:
        world.publish(taint())
        world.claim("c", "p")
        world.pod("p", "c")
        backup = world.api.objects["pods"]["ns/p"]
        await world.until("p is deleted", lambda: world.gone("p"))
        world.api.drop(PODS, "p", "ns")
        await world.until("p is gone", lambda: "ns/p" not in world.evictor.users.pods)
        world.api.put(PODS, backup)
        await world.until("p is deleted again", lambda: world.gone("p"))


async def test_eviction_is_tried_again_after_a_conflict() -> None:
    async with running_evictor() as world:
        world.publish(taint())
        world.claim("c", "p")
        faults = [conflict(), conflict()]
        world.api.fault = lambda verb, resource, name: faults.pop() if faults and resource is PODS else None
        world.pod("p", "c")
        await world.until("p is deleted", lambda: world.gone("p"))


async def test_pod_deleted_meanwhile_is_no_error() -> None:
    async with running_evictor() as world:
        world.publish(taint())
        world.claim("c", "p")
        world.pod("p", "c")
        world.api.fault = lambda verb, resource, name: away() if verb == "patch" else None
        await world.turn(0.05)
        world.api.drop(PODS, "p", "ns")
        world.api.fault = lambda verb, resource, name: None
        await world.until("nothing is left", lambda: not world.evictor._pending)
