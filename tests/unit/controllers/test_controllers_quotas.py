"""The quota controller against an API in memory: counts, deletions, restarts and broken watches."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from actors.controllers.common.informers import FirstObject
from actors.controllers.common.kinds import Kinds
from actors.controllers.garbage.custom_resources import CustomResourceFollower
from actors.controllers.policies.in_flight import CREDIT_S, GRACE_S, InFlightCharges
from actors.controllers.policies.quotas import QuotaController
from actors.controllers.policies.start import PolicyControllers
from protocols.kinds.table import PODS, RESOURCEQUOTAS
from protocols.kube.meta import Object
from protocols.kube.times import format_time
from protocols.kubeclient.client import ApiError
from protocols.kubeclient.informer import Informer
from protocols.quota import pods
from protocols.quota.amounts import parsed
from tests.support.memory_api import MemoryApi


class Scene:
    """A controller whose informers are the API's objects, with a clock that tests set."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.now = 1000.0
        self.pods = SimpleNamespace(items=self.api.objects["pods"], synced=True, failure="", unserved=asyncio.Event())
        self.begin()

    def begin(self) -> None:
        """Start a controller that knows nothing."""
        source: Any = lambda resource: self.pods if resource == "pods" else None  # noqa: E731
        client: Any = self.api
        self.controller = QuotaController(client, logging.getLogger("t"), source, clock=lambda: self.now)
        self.controller.items = self.api.objects["resourcequotas"]
        self.handler = self.controller.handler("pods")

    def quota(self, used: Any = None, **hard: str) -> None:
        status = {"hard": hard, "used": used} if used is not None else {}
        metadata = {"name": "q", "namespace": "ns"}
        old = self.controller.items.get("ns/q")
        obj = self.api.put(RESOURCEQUOTAS, {"metadata": metadata, "spec": {"hard": hard}, "status": status})
        if old is None:
            self.controller.on_add(obj)
        else:
            self.controller.on_update(old, obj)

    def pod(self, name: str) -> None:
        containers = [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]
        metadata = {"name": name, "namespace": "ns"}
        self.handler.on_add(self.api.put(PODS, {"metadata": metadata, "spec": {"containers": containers}}))

    def change(self, name: str, **metadata: Any) -> None:
        old = self.api.objects["pods"][f"ns/{name}"]
        self.handler.on_update(old, self.api.put(PODS, {**old, "metadata": {**old["metadata"], **metadata}}))

    def delete(self, name: str) -> None:
        obj = self.api.objects["pods"][f"ns/{name}"]
        self.api.drop(PODS, name, "ns")
        self.handler.on_delete(obj)

    async def passed(self) -> Object:
        """Let a pass happen, as its timer would."""
        self.now += 1.0
        await self.controller._step(("quota", "ns/q"))
        return dict(self.api.objects["resourcequotas"]["ns/q"]["status"])


async def test_quota_counts_the_pods_that_are_there() -> None:
    scene = Scene()
    scene.pod("a")
    scene.pod("b")
    scene.quota(pods="5", **{"requests.cpu": "1"})
    assert await scene.passed() == {
        "hard": {"pods": "5", "requests.cpu": "1"},
        "used": {"pods": "2", "requests.cpu": "200m"},
    }


async def test_deletion_is_given_back_at_the_next_pass() -> None:
    scene = Scene()
    scene.quota(pods="5")
    await scene.passed()
    scene.quota({"pods": "1"}, pods="5")  # an API server charges
    scene.pod("a")
    assert (await scene.passed())["used"] == {"pods": "1"}
    scene.delete("a")
    assert (await scene.passed())["used"] == {"pods": "0"}


async def test_pod_that_its_node_never_ends_is_given_back_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, clock = Scene(), SimpleNamespace(time=lambda: 1_800_000_000.0)
    monkeypatch.setattr(pods, "time", clock)
    scene.pod("a")
    scene.quota(pods="5")
    scene.change("a", deletionTimestamp=format_time(1_800_000_000.0), deletionGracePeriodSeconds=30)
    assert (await scene.passed())["used"] == {"pods": "1"}
    clock.time = lambda: 1_800_000_031.0
    assert (await scene.passed())["used"] == {"pods": "0"}


async def test_own_write_is_no_charge_if_its_event_comes_before_its_answer() -> None:
    """Its amounts were charges in flight: what was deleted meanwhile stayed used for half a minute."""
    scene = Scene()
    scene.pod("a")
    scene.quota(pods="5")
    old = scene.api.objects["resourcequotas"]["ns/q"]
    scene.api.lose = lambda *write: scene.controller.on_update(old, scene.api.objects["resourcequotas"]["ns/q"])
    assert (await scene.passed())["used"] == {"pods": "1"}
    scene.delete("a")
    assert (await scene.passed())["used"] == {"pods": "0"}


async def test_quota_that_is_deleted_during_its_pass_ends_it() -> None:
    scene = Scene()
    scene.quota(pods="5")
    quota = scene.api.objects["resourcequotas"]["ns/q"]
    scene.api.fault = lambda *write: scene.controller.on_delete(quota)
    await scene.passed()
    assert not scene.controller._in_flight
    assert not scene.controller._mine


async def test_write_that_conflicts_hides_no_charge_of_the_same_usage() -> None:
    """The next charge was offset against that object, and given back before its own object was seen."""
    scene = Scene()
    scene.quota({"pods": "0"}, pods="5")
    await scene.passed()
    scene.pod("a")
    scene.api.fault = Mock(side_effect=ApiError(409, {}))
    with pytest.raises(ApiError):
        await scene.passed()
    scene.api.fault = lambda *write: None
    scene.quota({"pods": "1"}, pods="5")
    scene.quota({"pods": "2"}, pods="5")
    assert (await scene.passed())["used"] == {"pods": "2"}


def test_object_without_a_charge_offsets_others_for_a_while_only() -> None:
    """One from before the quota did as long as others followed it."""
    charges, one = InFlightCharges(), parsed({"pods": "1"})
    charges.stored(one, 0.0)
    for second in range(1, int(CREDIT_S) + 1):
        charges.charged(one, float(second))
        charges.stored(one, float(second))
    charges.charged(one, CREDIT_S + 1)
    assert charges.outstanding(CREDIT_S + 1) == one


async def test_charge_without_an_object_is_given_back_after_the_grace_period() -> None:
    scene = Scene()
    scene.quota(pods="5")
    await scene.passed()
    scene.quota({"pods": "2"}, pods="5")
    scene.pod("a")
    assert (await scene.passed())["used"] == {"pods": "2"}
    scene.now += GRACE_S
    assert (await scene.passed())["used"] == {"pods": "1"}


async def test_restarted_controller_takes_a_surplus_for_charges_in_flight() -> None:
    scene = Scene()
    scene.quota({"pods": "3"}, pods="5")
    scene.begin()
    scene.controller.on_add(scene.api.objects["resourcequotas"]["ns/q"])
    assert (await scene.passed())["used"] == {"pods": "3"}
    scene.pod("late")
    scene.now += GRACE_S
    assert (await scene.passed())["used"] == {"pods": "1"}


async def test_broken_watch_gives_nothing_back() -> None:
    scene = Scene()
    scene.quota({"pods": "3"}, pods="5")
    scene.pods.failure = "the API is away"
    scene.now += 2 * GRACE_S
    assert (await scene.passed())["used"] == {"pods": "3"}


async def test_hard_limits_that_are_removed_leave_the_status() -> None:
    scene = Scene()
    scene.quota(pods="5", **{"requests.cpu": "1"})
    await scene.passed()
    scene.api.objects["resourcequotas"]["ns/q"]["spec"]["hard"] = {"pods": "4"}
    scene.controller.on_add(scene.api.objects["resourcequotas"]["ns/q"])
    assert await scene.passed() == {"hard": {"pods": "4"}, "used": {"pods": "0"}}


async def test_controllers_of_policies_wait_until_this_process_leads() -> None:
    tasks: list[asyncio.Task[None]] = []
    started = asyncio.Event()

    def spawn(work: Any, name: str) -> None:
        tasks.append(asyncio.create_task(work, name=name))
        if name == "quotas":
            started.set()

    context: Any = SimpleNamespace(log=logging.getLogger("t"), spawn=spawn)
    client: Any = MemoryApi()
    policies = PolicyControllers(client, context, lambda version, kind: None)
    first = next(handler for handler in policies.handlers(RESOURCEQUOTAS) if isinstance(handler, FirstObject))
    first.on_add({"metadata": {"name": "q", "namespace": "ns"}})
    await asyncio.sleep(0)
    assert [task.get_name() for task in tasks] == ["policies"]
    policies.lead()
    try:
        await asyncio.wait_for(started.wait(), 20)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_informer_of_a_definition_that_is_gone_has_no_objects() -> None:
    """A quota made later counted the objects that the definition had."""
    names = {"plural": "gadgets", "kind": "Gadget"}
    definition = {
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "names": names, "versions": [{"name": "v1", "served": True, "storage": True}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
    followed: dict[str, Informer] = {}
    others = SimpleNamespace(
        handlers=lambda resource: (), follow=lambda resource, informer: followed.update({resource.full_name: informer})
    )
    client, collector, task = Mock(), Mock(), Mock()
    spawn = Mock(side_effect=lambda work, name: work.close() or task)
    follower = CustomResourceFollower(Kinds(), client, collector, spawn, others)
    follower._begun = True
    follower.on_add(definition)
    followed["gadgets.example.com"].items["a"] = {"metadata": {"name": "a"}}
    follower.on_delete(definition)
    assert not followed["gadgets.example.com"].items
    task.cancel.assert_called_once()
