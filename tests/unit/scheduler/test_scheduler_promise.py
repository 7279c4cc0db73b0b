"""What happens to a promised node when the API refuses, is away, or answers nothing."""

import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from actors.scheduler import actor
from actors.scheduler.model.views import node_view
from protocols.kinds import views
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import name_of
from protocols.process.layout import layout


class FakeBinder:
    """Fails as told, one answer after another; then works."""

    def __init__(self) -> None:
        self.faults: list[Exception] = []
        self.bound: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.written = False
        """True if bindings without an answer were written."""

    async def bind(self, pod: dict[str, Any], node: str, claims: Iterable[str]) -> None:
        self.bound.append((name_of(pod), node))
        if self.faults:
            raise self.faults.pop(0)

    async def is_bound(self, pod: dict[str, Any]) -> bool:
        return self.written

    async def report_unschedulable(
        self, pod: dict[str, Any], why: str, reason: str = "", nominated: str | None = None
    ) -> None:
        self.refused.append((name_of(pod), why))


class World:
    def __init__(self) -> None:
        settings = SimpleNamespace(
            api_url="https://x",
            leader_elect=False,
            scheduler_seed=2,
            device_binding_timeout_s=600,
            gate=lambda name: True,
        )
        context: Any = SimpleNamespace(
            layout=layout("/nowhere"),
            settings=settings,
            log=logging.getLogger("test"),
            registry=CollectorRegistry(),
            spawn=None,
        )
        self.binder = FakeBinder()
        with mock.patch.object(actor, "Binder", return_value=self.binder):
            self.scheduler = actor.Scheduler(context)
        self.scheduler._cache.node(node_view(node("n1")))

    async def place(self, *names: str) -> None:
        for name in names:
            decision = await self.scheduler._run_scheduling_cycle(f"u-{name}")
            if decision is not None:
                await self.scheduler._run_binding_cycle(decision)

    def free(self) -> int:
        load = self.scheduler._cache.nodes["n1"]
        return (load.view.allocatable["example.com/gpu"] - load.used.get("example.com/gpu", 0)) // 10**9


def node(name: str, ready: str = "True") -> views.Node:
    status = {
        "allocatable": {"example.com/gpu": "4", "pods": "10"},
        "conditions": [{"type": "Ready", "status": ready}],
    }
    return cast("views.Node", {"metadata": {"name": name}, "status": status})


def pod(name: str, gpus: int = 3, **spec: Any) -> views.Pod:
    containers = [{"name": "c", "resources": {"limits": {"example.com/gpu": str(gpus)}}}]
    meta = {"name": name, "namespace": "ns", "uid": f"u-{name}"}
    return cast("views.Pod", {"metadata": meta, "spec": {"containers": containers, **spec}})


async def test_lost_answer_keeps_the_promise_and_the_next_try_asks_for_the_same_node() -> None:
    world = World()
    world.binder.faults = [ApiAway("gone")]
    world.scheduler.on_add(pod("a"))
    world.scheduler.on_add(pod("b"))
    await world.place("a", "b")
    assert world.binder.bound == [("a", "n1")]
    assert [name for name, _ in world.binder.refused] == ["b"], "the binding of a may have been written"
    world.scheduler._cache.node(node_view(node("n2")))
    await world.place("a")
    assert world.binder.bound == [("a", "n1"), ("a", "n1")]
    assert world.free() == 1


@pytest.mark.parametrize(("written", "then"), [(False, "n2"), (True, "n1")])
async def test_lost_answer_does_not_keep_the_promise_of_a_node_that_went_away(written: bool, then: str) -> None:
    world = World()
    world.binder.faults, world.binder.written = [ApiAway("gone")], written
    world.scheduler.on_add(pod("a"))
    await world.place("a")
    world.scheduler._cache.node(node_view(node("n1", ready="Unknown")))
    world.scheduler._cache.node(node_view(node("n2")))
    await world.place("a")
    await world.place("a")
    assert world.binder.bound[0] == ("a", "n1")
    assert world.binder.bound[1] == ("a", then)
    assert world.free() == (1 if written else 4)


@pytest.mark.parametrize(("code", "free"), [(409, 1), (404, 4), (403, 4), (500, 4)])
async def test_refusals(code: int, free: int) -> None:
    world = World()
    world.binder.faults = [ApiError(code, {"message": "no"})]
    world.scheduler.on_add(pod("a"))
    await world.place("a")
    assert world.free() == free
    world.scheduler.on_delete(pod("a"))
    assert world.free() == 4
    await world.place("a")
    assert len(world.binder.bound) == 1


async def test_late_news_of_a_bound_pod_refuses_nothing() -> None:
    world = World()
    world.scheduler.on_add(pod("a"))
    await world.place("a")
    world.scheduler.on_update(pod("a"), pod("a"))
    await world.place("a")
    assert world.binder.refused == []
    world.scheduler.on_update(pod("a"), pod("a", nodeName="n1"))
    await world.place("a")
    assert (world.free(), len(world.scheduler._queue)) == (1, 0)


async def test_a_malformed_pod_is_reported_and_harms_no_other() -> None:
    world = World()
    world.scheduler.on_add(pod("bad", tolerations=["x"]))
    worse: Any = {"metadata": {"name": "worse", "uid": "u-worse"}, "spec": []}
    world.scheduler.on_add(worse)
    world.scheduler.on_add(pod("good"))
    await world.place("bad", "worse", "good")
    assert [(name, "wrong shape" in why) for name, why in world.binder.refused] == [("bad", True)]
    assert world.binder.bound == [("good", "n1")]


def test_a_finished_or_gated_pod_holds_nothing() -> None:
    world = World()
    world.scheduler.on_add(pod("a", nodeName="n1"))
    assert world.free() == 1
    world.scheduler.on_update({}, {**pod("a", nodeName="n1"), "status": {"phase": "Succeeded"}})
    assert world.free() == 4
