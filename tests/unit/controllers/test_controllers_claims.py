"""Resource claim controller: creation from templates and release, with crashes, conflicts and lagging informers."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.controllers.claims import controller as controller_module
from actors.controllers.claims.controller import ResourceClaimController
from actors.controllers.claims.metrics import ClaimMetrics
from actors.controllers.claims.templates import base_name
from actors.controllers.common.informers import ChangeHandler
from protocols.dra.pods import CLAIM_NAME, FINALIZER, allocation_of, consumers
from protocols.kinds import views
from protocols.kinds.table import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, Resource
from protocols.kube.meta import Object, meta, name_of
from protocols.kubeclient import workqueue
from tests.support.memory_api import Events, Follower, MemoryApi, away, conflict
from tests.support.waiting import until_async

ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}


class World:
    """One life of the controller over an API that outlives it."""

    def __init__(self, api: MemoryApi) -> None:
        self.api, self.events = api, Events()
        fake: Any = api
        recorder: Any = self.events
        metrics = ClaimMetrics(CollectorRegistry())
        controller = self.controller = ResourceClaimController(fake, recorder, logging.getLogger("test"), metrics)
        self.followers = [
            Follower(api, RESOURCECLAIMTEMPLATES, ChangeHandler(controller.template_changed, lambda template: None)),
            Follower(api, RESOURCECLAIMS, ChangeHandler(controller.claim_changed, controller.claim_gone)),
            Follower(api, PODS, ChangeHandler(controller.pod_changed, controller.pod_gone)),
        ]
        templates, claims, pods = self.followers
        self.controller.templates, self.controller.claims, self.controller.pods = (
            templates.items,
            claims.items,
            pods.items,
        )

    def read(self) -> None:
        for each in self.followers:
            each.read(100)

    def _seen(self, late: bool) -> tuple[bool, dict[str, Any]]:
        """Let the followers read; return whether they are behind, and all claims."""
        if not late:
            self.read()
        return not late and any(follower.behind for follower in self.followers), dict(
            self.api.objects["resourceclaims"]
        )

    async def until(self, holds: Callable[[], Any], late: bool = False) -> None:
        """Runs until it holds and nothing is left to do; `late`: news of changes never come."""
        task = asyncio.create_task(self.controller.run())
        try:
            await until_async(
                "what holds", lambda: self._seen(late), every=0.001, good=lambda seen: holds() and not seen[0]
            )
            await asyncio.sleep(0.02)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def pod(name: str = "p", node: str = "", phase: str = "Pending", **entry: str) -> Object:
    entries = [{"name": "gpu", **(entry or {"resourceClaimTemplateName": "t"})}]
    spec = {"resourceClaims": entries, **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def template(name: str = "t") -> Object:
    wanted = {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}}, "spec": {"devices": {"requests": []}}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": wanted}


def claim(name: str, *pods: str, finalizers: tuple[str, ...] = (FINALIZER,), **more: Any) -> Object:
    reserved = [{"resource": "pods", "name": each, "uid": f"u-{each}"} for each in pods]
    status = {"allocation": ALLOCATION, "reservedFor": reserved}
    metadata = {"name": name, "namespace": "ns", "finalizers": list(finalizers), **more}
    return {"metadata": metadata, "spec": {}, "status": status}


def all_of(api: MemoryApi, resource: Resource) -> list[Object]:
    return list(api.objects[resource.plural].values())


def the(api: MemoryApi, resource: Resource, name: str) -> Any:
    return api.objects[resource.plural][f"ns/{name}"]


def status_of(api: MemoryApi, name: str) -> Any:
    return (the(api, PODS, name).get("status") or {}).get("resourceClaimStatuses")


@pytest.mark.scenario("S39")
async def test_claim_is_created_and_named_in_pod_status() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMTEMPLATES, template())
    api.put(PODS, pod())
    await World(api).until(lambda: status_of(api, "p"))
    (made,) = all_of(api, RESOURCECLAIMS)
    assert name_of(made).startswith("p-gpu-")
    assert meta(made)["annotations"] == {"a": "1", CLAIM_NAME: "gpu"}
    assert meta(made)["labels"] == {"l": "1"}
    (owner,) = meta(made)["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "u-p", True)
    assert status_of(api, "p") == [{"name": "gpu", "resourceClaimName": name_of(made)}]
    kept = the(api, RESOURCECLAIMTEMPLATES, "t")["spec"]["metadata"]["annotations"]
    assert kept == {"a": "1"}, "the template itself is nobody's to change"


@pytest.mark.scenario("S39")
@pytest.mark.parametrize(("pod_name", "entry"), [("p" * 80, "e" * 20), ("p", "e" * 63), ("p" * 63, "e"), ("a", "b")])
def test_generated_names_fit(pod_name: str, entry: str) -> None:
    base = base_name(pod_name, entry)
    assert len(base) <= 58
    assert base.startswith(pod_name[0])
    assert "-" + entry[0] in base
    assert base.endswith("-")


@pytest.mark.scenario("S39")
async def test_restart_after_creation_creates_no_second_claim() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMTEMPLATES, template())
    api.put(PODS, pod())
    api.fault = lambda verb, resource, name: away() if verb == "patch" else None
    await World(api).until(lambda: all_of(api, RESOURCECLAIMS))
    api.fault = lambda verb, resource, name: None
    await World(api).until(lambda: status_of(api, "p"))
    assert len(all_of(api, RESOURCECLAIMS)) == 1


async def test_lagging_informer_creates_no_second_claim() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMTEMPLATES, template())
    api.put(PODS, pod())
    world = World(api)
    await world.until(lambda: status_of(api, "p"), late=True)
    world.controller.pod_changed(cast("views.Pod", pod()))
    await world.until(lambda: True, late=True)
    assert len(all_of(api, RESOURCECLAIMS)) == 1


async def test_missing_template_is_reported_and_awaited() -> None:
    api = MemoryApi()
    api.put(PODS, pod())
    world = World(api)
    await world.until(lambda: world.events.told)
    assert world.events.told[0] == (
        "ns/p",
        "FailedResourceClaimCreation",
        'PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found',
    )
    api.put(RESOURCECLAIMTEMPLATES, template())
    await world.until(lambda: status_of(api, "p"))


async def test_pod_that_is_gone_waits_for_no_template() -> None:
    """Each pod of a missing template left its name behind, for ever."""
    api = MemoryApi()
    api.put(PODS, pod())
    world = World(api)
    await world.until(lambda: world.controller._waiting)
    api.drop(PODS, "p", "ns")
    await world.until(lambda: not world.controller._waiting)


async def test_deleted_generated_claim_is_created_again() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMTEMPLATES, template())
    api.put(PODS, pod())
    world = World(api)
    await world.until(lambda: status_of(api, "p"))
    (old,) = all_of(api, RESOURCECLAIMS)
    api.drop(RESOURCECLAIMS, name_of(old), "ns")
    await world.until(lambda: status_of(api, "p")[0]["resourceClaimName"] != name_of(old))


@pytest.mark.scenario("S34")
async def test_another_claim_of_the_name_is_none_of_the_pod() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMTEMPLATES, template())
    api.put(PODS, pod())
    await World(api).until(lambda: status_of(api, "p"))
    (made,) = all_of(api, RESOURCECLAIMS)
    api.drop(RESOURCECLAIMS, name_of(made), "ns")
    api.put(RESOURCECLAIMS, claim(name_of(made)))
    await World(api).until(lambda: status_of(api, "p")[0]["resourceClaimName"] != name_of(made))
    assert len(all_of(api, RESOURCECLAIMS)) == 2


async def test_last_pod_deallocates_claim() -> None:
    api = MemoryApi()
    for name in "abcde":
        api.put(PODS, pod(name, node="n1", phase="Running", resourceClaimName="c"))
    api.put(RESOURCECLAIMS, claim("c", *"abcde"))
    world = World(api)
    for name in "abcd":
        api.drop(PODS, name, "ns")
    await world.until(lambda: len(consumers(the(api, RESOURCECLAIMS, "c"))) == 1)
    assert allocation_of(the(api, RESOURCECLAIMS, "c")) == ALLOCATION
    api.put(PODS, pod("e", node="n1", phase="Succeeded", resourceClaimName="c"))
    await world.until(lambda: not meta(the(api, RESOURCECLAIMS, "c")).get("finalizers"))
    freed = the(api, RESOURCECLAIMS, "c")
    assert (allocation_of(freed), consumers(freed)) == (None, [])


async def test_pod_of_same_name_inherits_no_claim() -> None:
    api = MemoryApi()
    api.put(PODS, {**pod("a", resourceClaimName="c"), "metadata": {"name": "a", "namespace": "ns", "uid": "new"}})
    api.put(RESOURCECLAIMS, claim("c", "a"))
    await World(api).until(lambda: not consumers(the(api, RESOURCECLAIMS, "c")))


async def test_pod_deleted_before_binding_is_finished() -> None:
    api = MemoryApi()
    going = pod("a", resourceClaimName="c")
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
    api.put(PODS, going)
    api.put(RESOURCECLAIMS, claim("c", "a"))
    await World(api).until(lambda: not consumers(the(api, RESOURCECLAIMS, "c")))


async def test_unknown_pod_is_read_from_api() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMS, claim("c", "a"))
    world = World(api)
    api.put(PODS, pod("a", resourceClaimName="c"))
    await world.until(lambda: True, late=True)
    assert len(consumers(the(api, RESOURCECLAIMS, "c"))) == 1


async def test_claim_of_a_pod_that_only_the_api_has_is_processed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The informer lists after the pod's end, as after a restored backup: no event tells of it."""
    monkeypatch.setattr(controller_module, "UNSEEN_S", 0.02)
    api = MemoryApi()
    api.put(RESOURCECLAIMS, claim("c", "a"))
    world = World(api)
    api.put(PODS, pod("a", resourceClaimName="c"))
    task = asyncio.create_task(world.controller.run())
    world.followers[1].read(100)
    await asyncio.sleep(0.05)
    api.drop(PODS, "a", "ns")
    await until_async("released", lambda: not consumers(the(api, RESOURCECLAIMS, "c")), every=0.002)
    task.cancel()


async def test_pod_that_a_backup_brings_back_keeps_its_reservation() -> None:
    api = MemoryApi()
    entry = {"resourceClaimName": "c"}
    made = api.put(PODS, pod("a", "n1", **entry))
    api.put(RESOURCECLAIMS, claim("c", "a"))
    world = World(api)
    await world.until(lambda: world.controller.pods)
    api.drop(PODS, "a", "ns")
    await world.until(lambda: not consumers(the(api, RESOURCECLAIMS, "c")))
    api.put(PODS, made)
    api.put(RESOURCECLAIMS, claim("c", "a"))
    await world.until(lambda: "ns/a" in world.controller.pods)
    assert [consumer["name"] for consumer in consumers(the(api, RESOURCECLAIMS, "c"))] == ["a"]


async def test_unreserved_allocation_and_foreign_consumers_stay() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMS, claim("ahead"))
    foreign = claim("foreign", "gone")
    foreign["status"]["reservedFor"].append({"apiGroup": "x", "resource": "things", "name": "t", "uid": "u"})
    api.put(RESOURCECLAIMS, foreign)
    await World(api).until(lambda: len(consumers(the(api, RESOURCECLAIMS, "foreign"))) == 1)
    assert allocation_of(the(api, RESOURCECLAIMS, "foreign")) == ALLOCATION
    assert allocation_of(the(api, RESOURCECLAIMS, "ahead")) == ALLOCATION


async def test_deleted_claim_is_finalized_when_unused() -> None:
    api = MemoryApi()
    api.put(PODS, pod("a", node="n1", phase="Running", resourceClaimName="c"))
    api.put(RESOURCECLAIMS, claim("c", "a", deletionTimestamp="2026-01-01T00:00:00Z"))
    world = World(api)
    await world.until(lambda: True)
    assert allocation_of(the(api, RESOURCECLAIMS, "c"))
    api.drop(PODS, "a", "ns")
    await world.until(lambda: not all_of(api, RESOURCECLAIMS))


@pytest.mark.scenario("S39")
async def test_generated_claim_is_deleted_when_pod_finishes() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMTEMPLATES, template())
    api.put(PODS, pod())
    world = World(api)
    await world.until(lambda: status_of(api, "p"))
    api.put(PODS, {**pod(node="n1", phase="Running"), "status": {**the(api, PODS, "p")["status"], "phase": "Running"}})
    await world.until(lambda: True)
    assert len(all_of(api, RESOURCECLAIMS)) == 1
    api.put(PODS, {**pod(node="n1"), "status": {**the(api, PODS, "p")["status"], "phase": "Failed"}})
    await world.until(lambda: not all_of(api, RESOURCECLAIMS))


class CountedReads(MemoryApi):
    reads = 0

    async def get(self, resource: Resource, name: str, namespace: str = "", timeout: float | None = None) -> Object:
        self.reads += 1
        return await super().get(resource, name, namespace, timeout)


async def test_events_of_own_writes_lead_to_no_request() -> None:
    api = CountedReads()
    api.put(RESOURCECLAIMTEMPLATES, template())
    api.put(PODS, pod())
    world = World(api)
    await world.until(lambda: status_of(api, "p"))
    (made,) = all_of(api, RESOURCECLAIMS)
    metadata = {**made["metadata"], "finalizers": [FINALIZER]}
    api.put(RESOURCECLAIMS, {**made, "metadata": metadata, "status": claim("", "p")["status"]})
    await world.until(lambda: True)
    api.reads = api.writes = 0
    api.drop(PODS, "p", "ns")
    world.read()
    await world.until(lambda: not all_of(api, RESOURCECLAIMS), late=True)  # an event may overtake its write's answer
    await world.until(lambda: True)
    assert (api.reads, api.writes) == (1, 3), "one look at the pod; allocation, finalizer and claim go"


async def test_pod_bound_without_scheduler_gets_reservation() -> None:
    api = MemoryApi()
    api.put(RESOURCECLAIMS, claim("c"))
    api.put(PODS, pod("a", node="n1", resourceClaimName="c"))
    await World(api).until(lambda: consumers(the(api, RESOURCECLAIMS, "c")))
    assert consumers(the(api, RESOURCECLAIMS, "c")) == [{"resource": "pods", "name": "a", "uid": "u-a"}]


async def test_bound_pod_is_reserved_for_once_its_claim_is_allocated() -> None:
    api, early = MemoryApi(), {**claim("c"), "status": {}}
    for name in "ab":
        api.put(PODS, pod(name, node="n1", resourceClaimName="c"))
    world = World(api)
    await world.until(lambda: True)
    api.put(RESOURCECLAIMS, early)
    await world.until(lambda: True)
    api.drop(PODS, "a", "ns")
    await world.until(lambda: True)
    api.put(RESOURCECLAIMS, claim("c", "other"))
    api.put(PODS, pod("other", node="n1", phase="Running", resourceClaimName="c"))
    await world.until(lambda: [each["name"] for each in consumers(the(api, RESOURCECLAIMS, "c"))] == ["other", "b"])


async def test_bound_pod_waits_for_a_claim_with_as_many_consumers_as_it_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_module, "FULL_S", 0.01)
    api, others = MemoryApi(), [f"o{number}" for number in range(256)]
    api.put(RESOURCECLAIMS, claim("c", *others))
    for each in others:
        api.put(PODS, pod(each, node="n1", phase="Running", resourceClaimName="c"))
    api.put(PODS, pod("a", node="n1", resourceClaimName="c"))
    world = World(api)
    await world.until(lambda: True)
    assert api.writes == 0
    api.put(PODS, pod("o7", node="n1", phase="Succeeded", resourceClaimName="c"))
    await world.until(lambda: consumers(the(api, RESOURCECLAIMS, "c"))[-1]["name"] == "a")
    assert len(consumers(the(api, RESOURCECLAIMS, "c"))) == 256


async def test_finalizer_written_before_allocation_stays() -> None:
    api = MemoryApi()
    early = claim("c")
    early["status"] = {}
    api.put(RESOURCECLAIMS, early)
    await World(api).until(lambda: True)
    assert api.writes == 0
    going = {**early["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    api.put(RESOURCECLAIMS, {**early, "metadata": going})
    await World(api).until(lambda: not all_of(api, RESOURCECLAIMS))


async def test_conflict_is_retried_with_current_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "BASE_DELAY_S", 0.01)

    api = MemoryApi()
    api.put(RESOURCECLAIMS, claim("c", "gone"))
    faults = [conflict(), away()]
    api.fault = lambda verb, resource, name: faults.pop() if faults else None
    await World(api).until(lambda: allocation_of(the(api, RESOURCECLAIMS, "c")) is None)
