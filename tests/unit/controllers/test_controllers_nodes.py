"""Node lifecycle: heartbeats, taints by condition, disruption of zones, and eviction of pods."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from actors.controllers.common.informers import ChangeHandler
from actors.controllers.common.pod_eviction import NODE_TAINTS, EvictionMetrics
from actors.controllers.lifecycle.pod_gc import trim_pod
from actors.controllers.nodes import controller as nodes_module
from actors.controllers.nodes.controller import CONDITIONS, NodeController, NodeLeases, unknown_patch
from actors.controllers.nodes.disruption import EVICTION_RATE, NodeDisruption
from actors.controllers.nodes.pod_eviction import TaintEvictionController
from actors.controllers.nodes.taints import (
    MANAGED,
    UNSCHEDULABLE,
    desired_taints,
    eviction_time,
    execute_key,
    is_ready,
    taints_of,
)
from protocols.kinds import views
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.table import LEASES, NODES, PODS, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, condition, meta, terminating
from protocols.kube.taints import NOT_READY, UNREACHABLE
from protocols.kube.times import format_time, now
from tests.support.memory_api import Events, Follower, MemoryApi, conflict
from tests.support.waiting import until_true

GRACE_S = 0.5


def node(name: str = "n1", taints: Any = (), **conditions: str) -> views.Node:
    entries = [{"type": kind, "status": status, "lastTransitionTime": now()} for kind, status in conditions.items()]
    return cast(
        "views.Node",
        {
            "metadata": {"name": name},
            "spec": {"taints": list(taints)},
            "status": {"conditions": entries or [{"type": "Ready", "status": "True"}]},
        },
    )


def identities(taints: Iterable[views.Taint]) -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in taints]


# heartbeats


def test_node_is_lost_without_renewal_for_grace_period() -> None:
    leases = NodeLeases(40.0)
    leases.known("n1", 0.0)
    assert leases.lost(39) == []
    leases.renewed("n1", "t1", 30.0)
    assert leases.lost(41) == []
    leases.renewed("n1", "t1", 60.0)
    assert leases.lost(70.0) == ["n1"], "the same renewal again is no renewal"
    leases.renewed("n1", "t2", 71.0)
    assert leases.lost(80.0) == []
    leases.forget("n1")
    assert leases.lost(1000.0) == []


@given(st.lists(st.tuples(st.floats(0, 20), st.booleans()), max_size=50))
def test_node_that_renews_in_time_is_never_lost(course: list[tuple[float, bool]]) -> None:
    leases, at = NodeLeases(40.0), 0.0
    leases.known("n1", at)
    for number, (pause, twice) in enumerate(course):
        at += pause
        assert leases.lost(at) == []
        leases.renewed("n1", str(number), at)
        if twice:
            leases.renewed("n1", str(number), at)


async def test_node_that_renews_while_others_are_reported_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause of the controllers all leases are old, until their events are read."""
    monkeypatch.setattr(nodes_module, "CHECKS_PER_GRACE", 100_000)
    patched, done = list[str](), asyncio.Event()

    class Api:
        async def patch(self, resource: Resource, name: str, *rest: Any, **more: Any) -> None:
            if patched:
                done.set()
            patched.append(name)
            controller._leases.renewed("n2", "new", controller._now())

    fake: Any = Api()
    controller = NodeController(fake, cast(Any, None), logging.getLogger("test"), 1000.0, cast(Any, None))
    controller.nodes = {name: node(Ready="True") for name in ("n1", "n2")}
    for name in controller.nodes:
        controller._leases.known(name, controller._now() - 2000.0)
    task = asyncio.create_task(controller._check_leases())
    await asyncio.wait_for(done.wait(), 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert set(patched) == {"n1"}


def test_unknown_patch_covers_every_condition_once() -> None:
    patch = unknown_patch(node(Ready="True", DiskPressure="False"))
    assert patch is not None
    before = cast(Object, node(Ready="True", DiskPressure="False"))
    marked: Any = apply_strategic_patch(kind_shape("", "v1", "Node"), before, patch)
    found = {kind: condition(marked, kind) or {} for kind in CONDITIONS}
    assert {entry["status"] for entry in found.values()} == {"Unknown"}
    assert found["Ready"]["reason"] == "NodeStatusUnknown"
    assert found["PIDPressure"]["reason"] == "NodeStatusNeverUpdated"
    assert unknown_patch(marked) is None


# taints

STATUSES = st.sampled_from(["True", "False", "Unknown"])
USERS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", *sorted(MANAGED)]), st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
    ),
    unique=True,
    max_size=6,
)


def test_desired_taints_follow_conditions() -> None:
    bad = node(Ready="False", MemoryPressure="True", DiskPressure="False")
    assert identities(desired_taints(bad, NOT_READY)) == [
        (NOT_READY, "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        (NOT_READY, "NoExecute"),
    ]
    assert all("timeAdded" in taint for taint in desired_taints(bad, NOT_READY))
    cordoned = node()
    cordoned["spec"]["unschedulable"] = True
    assert identities(desired_taints(cordoned, "")) == [(UNSCHEDULABLE, "NoSchedule")]
    admitted = node(taints=[{"key": NOT_READY, "effect": "NoSchedule"}], Ready="True")
    assert desired_taints(admitted, "") == [], "a Ready node loses the taint that admission gave it"


@given(st.dictionaries(st.sampled_from(CONDITIONS), STATUSES), USERS, st.booleans())
def test_desired_taints_converge_and_keep_taints_of_users(
    conditions: dict[str, str], present: list[tuple[str, str]], unschedulable: bool
) -> None:
    taints = [{"key": key, "effect": effect} for key, effect in present]
    obj = node(taints=taints, **conditions)
    obj["spec"]["unschedulable"] = unschedulable
    obj["spec"]["taints"] = desired = desired_taints(obj, execute_key(obj))
    assert desired_taints(obj, execute_key(obj)) == desired, "the desired state is stable"
    for identity in present:
        if identity[0] not in MANAGED or identity[1] == "PreferNoSchedule":
            assert identity in identities(desired)
    ours = {key for key, effect in identities(desired) if effect == "NoExecute" and key in (NOT_READY, UNREACHABLE)}
    assert ours == ({execute_key(obj)} if execute_key(obj) else set())


def tolerating(seconds: int | None, **status: str) -> views.Pod:
    entry: Object = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    spec = {"tolerations": [entry if seconds is None else {**entry, "tolerationSeconds": seconds}]}
    return cast(
        "views.Pod", {"metadata": {"name": "p", "creationTimestamp": format_time(1000)}, "spec": spec, "status": status}
    )


def test_eviction_time_depends_on_toleration() -> None:
    taint: views.Taint = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": format_time(2000)}
    of_node = f"{UNREACHABLE}:NoExecute"
    assert eviction_time(tolerating(None), [taint], {}) is None
    assert eviction_time(tolerating(300), [taint], {}) == (2300, of_node)
    assert eviction_time(tolerating(300, startTime=format_time(2100)), [taint], {}) == (2400, of_node), "from its start"
    assert eviction_time(tolerating(300), [taint, {**taint, "key": NOT_READY}], {}) == (
        2000,
        f"{NOT_READY}:NoExecute",
    ), "one is not tolerated"
    assert eviction_time(tolerating(300), [{**taint, "effect": "NoSchedule"}], {}) is None
    assert eviction_time(tolerating(300), [{**taint, "timeAdded": "nonsense"}], {}) == (1300, of_node)
    by_user: views.Taint = {"key": UNREACHABLE, "effect": "NoExecute"}
    assert eviction_time(tolerating(300), [by_user], {UNREACHABLE: 5000.0}) == (5300, of_node)


def test_trimmed_pod_keeps_what_eviction_reads() -> None:
    pod = tolerating(300, startTime=format_time(2100))
    taint: views.Taint = {"key": UNREACHABLE, "effect": "NoExecute"}
    first, second = (cast("views.Pod", trim_pod(cast(Object, each))) for each in (pod, tolerating(300)))
    assert eviction_time(first, [taint], {}) == eviction_time(pod, [taint], {})
    assert first["spec"]["tolerations"] is second["spec"]["tolerations"], "equal lists are stored once"


# disruption


def cluster(ready: int, lost: int) -> NodeDisruption:
    disruption = NodeDisruption()
    for number in range(ready + lost):
        disruption.observe(f"n{number}", "z", number < ready)
    return disruption


def allowed(disruption: NodeDisruption, nodes: int, seconds: int) -> int:
    """Return how many of the last nodes may be tainted in so many seconds, asked each second."""
    return sum(disruption.take(f"n{nodes - 1}", float(at)) for at in range(1, seconds + 1))


def test_disruption_limits_taints_by_the_state_of_the_zone() -> None:
    assert allowed(cluster(9, 1), 10, 100) == 10, "one each 10 s"
    assert allowed(cluster(0, 1), 1, 100) == 0, "the only node is lost: the control plane may be cut off"
    assert allowed(cluster(4, 6), 10, 1000) == 0, "most of a small zone is lost"
    assert allowed(cluster(24, 36), 60, 1000) == 10, "most of a large zone is lost"


def test_disruption_taints_a_zone_that_is_lost_as_a_whole() -> None:
    disruption = cluster(0, 3)
    suspended = [disruption.suspended]
    disruption.observe("other", "elsewhere", True)
    suspended.append(disruption.suspended)
    assert allowed(disruption, 3, 100) == round(100 * EVICTION_RATE)
    disruption.forget("other")
    assert [*suspended, disruption.suspended] == [True, False, True]


def test_excluded_nodes_are_tainted_and_do_not_count() -> None:
    disruption = cluster(4, 0)
    for number in range(4, 10):
        disruption.observe(f"n{number}", "z", False, excluded=True)
    assert allowed(disruption, 10, 100) == round(100 * EVICTION_RATE)
    for number in range(4):
        disruption.forget(f"n{number}")
    assert disruption.suspended
    disruption.observe("n9", "z", True)
    assert not disruption.suspended


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.sampled_from(["ready", "lost", "gone"]))))
def test_disruption_counts_each_node_once(course: list[tuple[int, str, str]]) -> None:
    disruption, model = NodeDisruption(), dict[str, tuple[str, bool]]()
    for number, zone, state in course:
        name = f"n{number}"
        if state == "gone":
            disruption.forget(name)
            model.pop(name, None)
        else:
            disruption.observe(name, zone, state == "ready")
            model[name] = zone, state == "ready"
        assert disruption.suspended == (bool(model) and not any(ready for _, ready in model.values()))


# the controllers


class World:
    """Both controllers on an API in memory."""

    def __init__(self) -> None:
        self.api, self.events = MemoryApi(), Events()
        api: Any = self.api
        log = logging.getLogger("test")
        metrics = EvictionMetrics(CollectorRegistry(), NODE_TAINTS)
        self.evictor = TaintEvictionController(api, self.events, metrics, log)
        self.nodes = NodeController(api, self.events, log, GRACE_S, self.evictor)
        pods = ChangeHandler(self.evictor.pod_changed, self.evictor.pod_gone)
        self.followers = [
            Follower(self.api, NODES, self.nodes),
            Follower(self.api, LEASES, self.nodes.leases),
            Follower(self.api, PODS, pods),
        ]
        self.nodes.nodes = self.evictor.nodes = self.followers[0].items
        self.evictor.pods = self.followers[2].items
        self.renewing: set[str] = set()

    def node(self, name: str) -> views.Node:
        node: views.Node = self.api.objects["nodes"][name]
        return node

    def pod(self, name: str) -> Any:
        return self.api.objects["pods"].get(f"ns/{name}")

    def add_pod(self, name: str, on: str, seconds: int = 300) -> None:
        tolerations = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for key in (NOT_READY, UNREACHABLE)
        ]
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}"}
        self.api.put(
            PODS, {"metadata": metadata, "spec": {"nodeName": on, "tolerations": tolerations}, "status": status}
        )

    async def until(self, description: str, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end, (description, dict(self.api.objects["nodes"]))
            for name in self.renewing:
                spec = {"renewTime": str(time.monotonic_ns())}
                self.api.put(LEASES, {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec})
            for follower in self.followers:
                follower.read(100)
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running_controllers() -> AsyncIterator[World]:
    world = World()
    tasks = [asyncio.create_task(each.run()) for each in (world.nodes, world.evictor)]
    try:
        async with asyncio.timeout(150):
            yield world
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_deleted(pod: Object | None) -> bool:
    return pod is None or terminating(pod)


async def test_pods_of_lost_node_are_evicted_and_others_stay() -> None:
    async with running_controllers() as world:
        world.renewing = {"n1", "n2"}
        for name in world.renewing:
            world.api.put(NODES, node(name))
        world.add_pod("brief", "n1", seconds=0)
        world.add_pod("patient", "n1")
        world.add_pod("elsewhere", "n2", seconds=0)
        world.renewing = {"n2"}
        await world.until("brief is deleted", lambda: is_deleted(world.pod("brief")))
        assert (UNREACHABLE, "NoExecute") in identities(taints_of(world.node("n1")))
        assert (UNREACHABLE, "NoSchedule") in identities(taints_of(world.node("n1")))
        assert identities(taints_of(world.node("n2"))) == []
        assert not is_deleted(world.pod("patient"))
        await world.until("patient not ready", lambda: not is_ready(world.pod("patient")))
        assert not is_deleted(world.pod("elsewhere"))
        assert ("ns/brief", "TaintManagerEviction", "Marking for deletion Pod ns/brief") in world.events.told


async def test_taint_of_a_user_gives_an_old_pod_its_time() -> None:
    """`kubectl taint` adds no time, so the pod was deleted at once if it ran for longer than its toleration lasts."""
    async with running_controllers() as world:
        world.renewing = {"n1", "n2"}
        for name in world.renewing:
            world.api.put(NODES, node(name))
        for name, seconds in (("patient", 300), ("brief", 0)):
            world.add_pod(name, "n1", seconds)
            old = world.pod(name)
            world.api.put(PODS, {**old, "metadata": {**meta(old), "creationTimestamp": format_time(1000)}})
        world.api.put(NODES, node("n1", taints=[{"key": UNREACHABLE, "effect": "NoExecute"}], Ready="Unknown"))
        await world.until("brief is deleted", lambda: is_deleted(world.pod("brief")))
        assert not is_deleted(world.pod("patient"))


async def test_pods_that_are_listed_after_their_lost_node_are_marked() -> None:
    """Nodes are reconciled before pods are listed: the pods of one that was lost before stayed Ready."""
    world = World()
    world.api.put(NODES, node("n1", taints=[{"key": UNREACHABLE, "effect": "NoSchedule"}], Ready="Unknown"))
    world.add_pod("a", "n1")
    world.followers[0].read(9)
    work = asyncio.create_task(world.nodes.run())
    await until_true(lambda: not world.nodes._work._dirty)
    world.followers[2].read(9)
    assert is_ready(world.pod("a"))
    world.nodes.enqueue_all()
    await until_true(lambda: not is_ready(world.pod("a")))
    work.cancel()


async def test_node_that_comes_back_loses_taints_and_keeps_pods() -> None:
    async with running_controllers() as world:
        world.renewing = {"n2"}
        for name in ("n1", "n2"):
            world.api.put(NODES, node(name))
        world.add_pod("patient", "n1")
        await world.until("tainted", lambda: (UNREACHABLE, "NoExecute") in identities(taints_of(world.node("n1"))))
        world.renewing = {"n1", "n2"}
        world.api.put(NODES, node("n1", taints=taints_of(world.node("n1"))))  # its agent reports Ready
        await world.until("no taint", lambda: identities(taints_of(world.node("n1"))) == [])
        cancelled = ("ns/patient", "TaintManagerEviction", "Cancelling deletion of Pod ns/patient")
        await world.until("cancelled", lambda: cancelled in world.events.told)
        assert not is_deleted(world.pod("patient"))


@pytest.mark.parametrize("seen", [True, False])
async def test_nodes_have_the_grace_period_again_after_an_outage_of_the_api(seen: bool) -> None:
    """All nodes were reported lost, and their pods not ready, before the first one could renew its lease."""
    world = World()
    world.api.put(NODES, node("n1"))
    world.followers[0].read(9)
    began, ended = world.nodes._now(), asyncio.Event()

    async def away(*what: Any, **how: Any) -> Object:
        raise ApiAway("down")

    async def back(*what: Any, **how: Any) -> Object:
        ended.set()
        raise ApiError(404, {"message": "no lease"})

    world.api.patch = away  # type: ignore[method-assign]
    world.api.get = back  # type: ignore[method-assign]
    world.nodes.watching = lambda: not seen
    outage = asyncio.create_task(world.nodes.run())
    await (asyncio.sleep(3 * GRACE_S) if seen else asyncio.wait_for(ended.wait(), 60))
    await asyncio.sleep(0)
    outage.cancel()
    assert world.nodes._leases.seen["n1"][1] > began


async def test_nodes_above_the_rate_are_tainted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.controllers.nodes.disruption.EVICTION_RATE", 5.0)
    async with running_controllers() as world:
        world.renewing = {"n1"}
        for name in ("n1", "n2", "n3"):
            world.api.put(NODES, node(name))
        execute = (UNREACHABLE, "NoExecute")
        lost = [partial(world.node, name) for name in ("n2", "n3")]
        await world.until("both", lambda: all(execute in identities(taints_of(read())) for read in lost))


async def test_node_loses_its_execute_taint_when_the_last_ready_node_is_deleted() -> None:
    async with running_controllers() as world:
        world.renewing = {"n2"}
        for name in ("n1", "n2"):
            world.api.put(NODES, node(name))
        execute = (UNREACHABLE, "NoExecute")
        await world.until("tainted", lambda: execute in identities(taints_of(world.evictor.nodes.get("n1") or {})))
        await until_true(lambda: not len(world.nodes._work))
        world.renewing = set()
        world.api.drop(NODES, "n2")
        await world.until("not tainted", lambda: execute not in identities(taints_of(world.node("n1"))))


async def test_only_node_lost_is_not_tainted_no_execute() -> None:
    async with running_controllers() as world:
        world.api.put(NODES, node("n1"))
        world.add_pod("brief", "n1", seconds=0)
        await world.until("unreachable", lambda: (UNREACHABLE, "NoSchedule") in identities(taints_of(world.node("n1"))))
        deadline = time.monotonic() + 3 * GRACE_S
        await world.until("time passed", lambda: time.monotonic() > deadline)
        assert identities(taints_of(world.node("n1"))) == [(UNREACHABLE, "NoSchedule")]
        assert not is_deleted(world.pod("brief"))


async def test_taints_of_others_survive_a_conflict() -> None:
    async with running_controllers() as world:
        world.renewing = {"n1"}
        world.api.put(NODES, node("n1", taints=[{"key": "mine", "effect": "NoSchedule"}], Ready="False"))
        refusals = iter([conflict(), conflict()])
        world.api.fault = lambda verb, resource, name: next(refusals, None) if verb == "patch" else None
        await world.until("tainted", lambda: (NOT_READY, "NoSchedule") in identities(taints_of(world.node("n1"))))
        assert ("mine", "NoSchedule") in identities(taints_of(world.node("n1")))
        assert meta(world.node("n1"))["name"] == "n1"
