"""Preemption from the API's point of view: who is evicted and why, who waits, and what a kill leaves."""

import asyncio
import itertools
import random
from typing import Any, NamedTuple, cast
from unittest.mock import MagicMock

import msgspec
import pytest

from actors.scheduler.model.nominations import Victim
from actors.scheduler.model.views import NodeLoad, node_view
from actors.scheduler.preemption import planner
from actors.scheduler.preemption.evictor import Evictor
from actors.scheduler.preemption.trial import Trial
from protocols.kinds.table import NODES, PODDISRUPTIONBUDGETS, PODS, RESOURCESLICES, Resource
from protocols.kube.meta import condition, meta
from protocols.messages.trace import SpanBatch, SpanQuery
from protocols.trace import RECORDER
from tests.support.memory_api import MemoryApi, away, conflict
from tests.support.scheduler_life import (
    Life,
    devices,
    events_of,
    freed,
    gone,
    heard,
    held,
    leaving,
    node_of,
    nominated,
    put_allocated,
    put_claim,
    put_class,
    put_node,
    put_pod,
    put_slice,
    running,
    says,
    the,
    until,
    using,
)

DISRUPTED = ("True", "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod")


def steps(uid: str, name: str) -> list[dict[str, str]]:
    """Return the attributes of a pod's steps of one name."""
    batch = msgspec.msgpack.decode(msgspec.msgpack.encode(RECORDER.answer(SpanQuery(pod=uid), 1)), type=SpanBatch)
    return [span.attributes for span in batch.spans if span.name == name]


def preemptions(uid: str) -> list[tuple[str | None, str | None]]:
    """Return nodes and victims of the preemptions in a pod's trace."""
    return [(step.get("node"), step.get("victims")) for step in steps(uid, "preempt")]


async def test_victim_whose_condition_meets_a_conflict_is_evicted_later() -> None:
    api = MemoryApi()
    put_node(api, "n1", pods=1)
    running(api, "low", "n1", priority=1)
    faults = [conflict()]
    api.fault = lambda verb, resource, name: faults.pop() if faults and name == "low" else None
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "high", priority=2)
        await until("low goes", lambda: leaving(api) == ["low"])
        gone(api, "low")
        await until("high is bound", lambda: node_of(api, "high"))


async def test_pod_of_lower_priority_makes_room() -> None:
    api = MemoryApi()
    put_node(api, "n1", pods=1)
    low = running(api, "low", "n1", priority=1)
    api.put(PODS, {**low, "metadata": {**meta(low), "generation": 3}})
    async with asyncio.timeout(60), Life(api) as life:
        high = put_pod(api, "high", priority=2)
        await until("low is evicted", lambda: leaving(api) == ["low"])
        await until("the trace", lambda: ("n1", "ns/low") in preemptions(meta(high)["uid"]))
        cause = {"by": "ns/high (priority 2)", "node": "n1", "priority": "1"}
        await until("the victim's trace", lambda: cause in steps(meta(low)["uid"], "preempted"))
        entry = condition(the(api, PODS, "low"), "DisruptionTarget") or {}
        assert (entry["status"], entry["reason"], entry["message"]) == DISRUPTED
        assert entry["observedGeneration"] == 3
        assert nominated(api, "high") == "n1"
        assert says(api, "high") == "0/1 nodes are available: 1 Too many pods."
        await until("the event", lambda: events_of(life, "Preempted"))
        assert ("ns/low", "Preempted", f"Preempted by pod {meta(high)['uid']} on node n1") in life.events.told
        gone(api, "low")
        await until("high is bound", lambda: node_of(api, "high") == "n1")
    assert nominated(api, "high") == ""


async def test_nobody_is_preempted_by_an_equal_or_by_preemption_policy_never() -> None:
    api = MemoryApi()
    put_node(api, "n1", pods=1)
    put_node(api, "n2", {"zone": "z"}, pods=1)
    running(api, "one", "n1", priority=1)
    running(api, "two", "n2", priority=1)
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "equal", priority=1, nodeSelector={"zone": "z"})
        put_pod(api, "polite", priority=9, preemptionPolicy="Never")
        await until("both wait", lambda: says(api, "equal") and says(api, "polite"))
        head = "0/2 nodes are available: "
        assert says(api, "equal") == (
            f"{head}1 Too many pods, 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate,"
            f" preemption: {head}1 No preemption victims found for incoming pod,"
            " 1 Preemption is not helpful for scheduling."
        )
        assert says(api, "polite") == (
            f"{head}2 Too many pods. no new claims to deallocate,"
            " preemption: not eligible due to preemptionPolicy=Never."
        )
    assert leaving(api) == []


async def test_device_of_a_claim_is_taken_from_the_least_important_pod() -> None:
    api = MemoryApi()
    put_class(api)
    for node in ("n1", "n2"):
        put_node(api, node)
        put_slice(api, node, *devices(1))
    using(api, "middle", "n1", 0, priority=2)
    using(api, "low", "n2", 0, priority=1)
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c")
        put_pod(api, "high", "c", priority=3)
        await until("low is evicted", lambda: leaving(api) == ["low"])
        assert nominated(api, "high") == "n2"
        gone(api, "low")
        await until("high is bound", lambda: node_of(api, "high") == "n2")
    assert held(api, "c") == ["n2/dev-0"]
    assert leaving(api) == []


async def test_gate_off_no_pod_goes_for_devices_but_for_room() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", *devices(1))
    using(api, "low", "n1", 0)
    put_node(api, "n2", {"zone": "z"}, pods=1)
    running(api, "other", "n2")
    async with asyncio.timeout(60), Life(api, {"DRAPreemption": False}):
        put_claim(api, "c")
        put_pod(api, "high", "c", priority=3)
        await until("it waits", lambda: says(api, "high"))
        head = "0/2 nodes are available: "
        assert says(api, "high").startswith(f"{head}1 Too many pods, 1 cannot allocate all claims.")
        put_pod(api, "roomy", priority=3, nodeSelector={"zone": "z"})
        await until("for room", lambda: leaving(api) == ["other"])
        await heard()
    assert leaving(api) == ["other"]


NEVER: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "more devices than a node has": ((), {"count": 3}),
    "a selector that selects nothing": (('device.driver == "nobody.example.com"',), {}),
    "a selector that fails": (('device.attributes["d.example.com"].none == 1',), {}),
    "a class that is not there": ((), {"deviceClassName": "none"}),
}


@pytest.mark.parametrize("why", NEVER)
async def test_claim_that_can_never_fit_evicts_nobody(why: str) -> None:
    api, (expressions, exactly) = MemoryApi(), NEVER[why]
    put_class(api)
    for node in ("n1", "n2"):
        put_node(api, node)
        put_slice(api, node, *devices(2))
        for at in range(2):
            using(api, f"{node}-{at}", node, at, priority=1)
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c", *expressions, **exactly)
        put_pod(api, "high", "c", priority=9)
        await until("it is told why", lambda: says(api, "high"))
        put_claim(api, "possible")
        put_pod(api, "other", "possible", priority=2)
        await until("one innocent goes, for the pod that it helps", lambda: len(leaving(api)) == 1)
        assert nominated(api, "other")
        assert nominated(api, "high") == ""
    assert len(leaving(api)) == 1


async def test_shared_claim_is_freed_only_if_all_its_pods_can_go() -> None:
    api = MemoryApi()
    put_class(api)
    for node in ("n1", "n2"):
        put_node(api, node)
        put_slice(api, node, *devices(1))
    for name, node, priority in (("a", "n1", 1), ("b", "n1", 9), ("c", "n2", 1), ("d", "n2", 2)):
        running(api, name, node, f"on-{node}", priority=priority)
    put_allocated(api, "on-n1", "n1", 0, "a", "b")
    put_allocated(api, "on-n2", "n2", 0, "c", "d")
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "mine")
        put_pod(api, "high", "mine", priority=3)
        await until("both users of the claim on n2 go", lambda: leaving(api) == ["c", "d"])
        gone(api, "c")
        await heard()
        assert leaving(api) == ["d"]
        gone(api, "d")
        await until("high is bound", lambda: node_of(api, "high") == "n2")


async def test_device_of_the_network_is_taken_from_a_pod_on_another_node() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_node(api, "n2", {"zone": "z"})
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "allNodes": True, "pool": pool, "devices": devices(1)}
    api.put(RESOURCESLICES, {"metadata": {"name": "net"}, "spec": spec})
    running(api, "far", "n1", "far")
    put_allocated(api, "far", "net", 0, "far")
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c")
        put_pod(api, "high", "c", priority=3, nodeSelector={"zone": "z"})
        await until("far is evicted", lambda: leaving(api) == ["far"])
        assert nominated(api, "high") == "n2"
        gone(api, "far")
        await until("high is bound", lambda: node_of(api, "high") == "n2")


async def test_budget_sends_the_preemptor_to_another_node() -> None:
    api = MemoryApi()
    for node in ("n1", "n2"):
        put_node(api, node, pods=1)
    running(api, "guarded", "n1", priority=0, labels={"app": "db"})
    running(api, "other", "n2", priority=5)
    status = {"disruptionsAllowed": 0, "disruptedPods": {}}
    spec = {"selector": {"matchLabels": {"app": "db"}}}
    api.put(PODDISRUPTIONBUDGETS, {"metadata": {"name": "b", "namespace": "ns"}, "spec": spec, "status": status})
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "high", priority=9)
        await until("the other goes", lambda: leaving(api) == ["other"])
        assert nominated(api, "high") == "n2"
        put_pod(api, "higher", priority=10)
        await until("the guarded pod goes at last, or high's room is taken", lambda: nominated(api, "higher"))
    assert leaving(api) in (["other"], ["guarded", "other"])


async def test_device_is_kept_for_the_nominated_pod_while_its_claim_is_being_freed() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", *devices(2))
    using(api, "low", "n1", 0)
    using(api, "top", "n1", 1, priority=100)
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "c")
        put_pod(api, "high", "c", priority=5)
        await until("low is evicted", lambda: leaving(api) == ["low"])
        put_claim(api, "d")
        put_pod(api, "equal", "d", priority=5)
        await until("equal waits", lambda: says(api, "equal"))
        uid = meta(the(api, PODS, "low"))["uid"]
        api.drop(PODS, "low", "ns")
        await heard()
        assert (node_of(api, "high"), node_of(api, "equal")) == ("", "")
        freed(api, uid)
        await until("high is bound", lambda: node_of(api, "high") == "n1")
        await heard()
    assert (node_of(api, "equal"), leaving(api)) == ("", [])


async def test_killed_after_the_nomination_no_second_victim_is_chosen() -> None:
    api = MemoryApi()
    put_class(api)
    for node in ("n1", "n2"):
        put_node(api, node)
        put_slice(api, node, *devices(1))
        using(api, f"low-{node}", node, 0)
    put_claim(api, "c")
    put_pod(api, "high", "c", priority=5)
    async with asyncio.timeout(60):
        async with Life(api):
            await until("one is evicted", lambda: leaving(api))
        (victim,) = leaving(api)
        put_claim(api, "d")
        put_pod(api, "rival", "d", priority=4)
        async with Life(api):
            await until("the rival has the other one", lambda: len(leaving(api)) == 2)
            assert nominated(api, "rival") != nominated(api, "high")
            gone(api, victim)
            await until("high is bound", lambda: node_of(api, "high") == nominated_before(victim))
            await heard()
            assert node_of(api, "rival") == ""


def nominated_before(victim: str) -> str:
    return victim.removeprefix("low-")


async def test_object_of_a_wrong_shape_ends_no_planning() -> None:
    api = MemoryApi()
    put_node(api, "n1", pods=1)
    low = running(api, "low", "n1")
    api.put(PODS, {**low, "metadata": {**meta(low), "generation": "many"}})
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "high", priority=5)
        await until("it waits", lambda: "field of the wrong shape" in says(api, "high"))
        api.put(PODS, {**low, "metadata": {**meta(low), "generation": 1}})
        put_pod(api, "higher", priority=6)
        await until("the next plan works", lambda: leaving(api) == ["low"])


async def test_nomination_ends_when_nothing_helps_any_more() -> None:
    api = MemoryApi()
    put_node(api, "n1", pods=1)
    running(api, "low", "n1")
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "high", priority=5)
        await until("nominated", lambda: nominated(api, "high") == "n1")
        running(api, "static", "n1", priority=10)  # first, or high may be bound between the two
        api.drop(PODS, "low", "ns")
        await until("not any more", lambda: nominated(api, "high") == "" and not node_of(api, "high"))


@pytest.mark.parametrize("seed", range(4))
async def test_as_many_go_as_are_needed_whatever_fails(seed: int) -> None:
    """Kills, lost answers and late claims: each preemptor costs one pod, and no pod goes for an equal one."""
    api = MemoryApi(seed)
    chance = random.Random(seed)
    put_class(api)
    for at in range(3):
        put_node(api, f"n{at}")
        put_slice(api, f"n{at}", *devices(2))
        for device in range(2):
            using(api, f"low-{at}-{device}", f"n{at}", device, priority=chance.choice([0, 1]))
    for at in range(4):
        put_claim(api, f"c{at}")
        put_pod(api, f"high{at}", f"c{at}", priority=5)
    evicted: set[str] = set()

    def flaky(verb: str, resource: Resource, name: str) -> Exception | None:
        return away() if chance.random() < 0.03 else None

    api.lose = flaky
    async with asyncio.timeout(120):
        for _ in range(200):
            life = Life(api)
            await life.scheduler.start()
            for _ in range(chance.randint(10, 300)):
                await asyncio.sleep(0)
                for name in leaving(api):
                    evicted.add(name)
                    if chance.random() < 0.02:
                        gone(api, name)
            await life.kill()
            assert not life.broken, life.broken
            if all(node_of(api, f"high{at}") for at in range(4)):
                break
        else:
            api.lose = lambda verb, resource, name: None
            async with Life(api):
                while not all(node_of(api, f"high{at}") for at in range(4)):
                    for name in leaving(api):
                        evicted.add(name)
                        gone(api, name)
                    await asyncio.sleep(0.01)
    assert len(evicted) == 4
    assert all(name.startswith("low") for name in evicted)


class Hosted(NamedTuple):
    """A pod on a node of a random world."""

    name: str
    node: str
    priority: int
    cpu: int
    claims: frozenset[str]


class SmallCluster:
    """Nodes of 3 cpu and some devices, full of pods; and the victims that trying everything finds for one more pod."""

    PRIORITY = 5

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.devices = {f"n{at}": self.dice.randint(1, 3) for at in range(self.dice.randint(1, 3))}
        self.cpu, self.wants = self.dice.randint(0, 2), self.dice.randint(1, 2)
        self.pods: list[Hosted] = []
        self.users: dict[str, tuple[str, int]] = {}
        """Claim -> its device."""
        for node, count in self.devices.items():
            self._fill(node, count)

    def _fill(self, node: str, count: int) -> None:
        held = [f"{node}-{at}" for at in range(count) if self.dice.random() < 0.9]
        self.users |= {claim: (node, int(claim.rpartition("-")[2])) for claim in held}
        cpu = 3
        for at in range(self.dice.randint(1, 4)):
            uses = frozenset(claim for claim in held if self.dice.random() < 0.5)
            need = self.dice.randint(0, min(cpu, 2))
            cpu -= need
            self.pods.append(Hosted(f"{node}-p{at}", node, self.dice.choice([0, 1, 2, 9]), need, uses))
        for claim in held:
            if not any(claim in pod.claims for pod in self.pods):
                self.pods.append(Hosted(f"{claim}-user", node, self.dice.choice([0, 3]), 0, frozenset({claim})))

    def fits(self, node: str, removed: frozenset[str]) -> bool:
        left = [pod for pod in self.pods if pod.node == node and pod.name not in removed]
        held = {claim for pod in left for claim in pod.claims}
        return sum(pod.cpu for pod in left) + self.cpu <= 3 and self.devices[node] - len(held) >= self.wants

    def victims(self, node: str) -> list[Hosted] | None:
        """Return those whose removal keeps the most important others; None if nothing helps."""
        lower = [pod for pod in self.pods if pod.node == node and pod.priority < self.PRIORITY]
        order = sorted(lower, key=lambda pod: (-pod.priority, self.pods.index(pod)))
        choices = (set(each) for count in range(len(order) + 1) for each in itertools.combinations(order, count))
        working = [chosen for chosen in choices if self.fits(node, frozenset(pod.name for pod in chosen))]
        if not working:
            return None
        best = max(working, key=lambda chosen: [pod not in chosen for pod in order])
        return [pod for pod in order if pod in best]

    def cost(self, victims: list[Hosted]) -> tuple[int, int, int, int]:
        highest = max((pod.priority for pod in victims), default=-1)
        started = min((self.pods.index(pod) for pod in victims if pod.priority == highest), default=0)
        return highest, sum(pod.priority + 2**31 for pod in victims), len(victims), -started

    def create(self, api: MemoryApi) -> None:
        put_class(api)
        ready = [{"type": "Ready", "status": "True"}]
        for node, count in self.devices.items():
            status = {"allocatable": {"pods": "50", "cpu": "3"}, "conditions": ready}
            api.put(NODES, {"metadata": {"name": node}, "status": status})
            put_slice(api, node, *devices(count))
        for at, pod in enumerate(self.pods):
            made = running(api, pod.name, pod.node, *pod.claims, priority=pod.priority, **cpu_of(pod.cpu))
            api.put(PODS, {**made, "status": {"startTime": f"2026-01-01T00:00:{at:02}Z"}})
        for claim, (node, device) in self.users.items():
            put_allocated(api, claim, node, device, *(pod.name for pod in self.pods if claim in pod.claims))
        put_claim(api, "mine", count=self.wants)


def cpu_of(amount: int) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(amount)}}}]}


async def preempts_the_cheapest(seed: int) -> bool:
    """Schedule one pod on a small cluster, check its victims, and return True if it had some."""
    cluster, api = SmallCluster(seed), MemoryApi(seed)
    cluster.create(api)
    found = {node: cluster.victims(node) for node in cluster.devices}
    candidates = [victims for victims in found.values() if victims is not None]
    cheapest = min(map(cluster.cost, candidates), default=None)
    expected = [
        sorted(pod.name for pod in candidate) for candidate in candidates if cluster.cost(candidate) == cheapest
    ]
    wanted = [] if not expected or [] in expected else expected
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "new", "mine", priority=cluster.PRIORITY, **cpu_of(cluster.cpu))
        await until("decided", lambda: node_of(api, "new") or says(api, "new"))
        if wanted:
            await until("evicted", lambda: leaving(api) in wanted)
        await heard()
    assert leaving(api) in (wanted or [[]]), f"seed {seed}"
    return bool(wanted)


@pytest.mark.parametrize("seeds", [range(at, at + 16) for at in (0, 16)], ids=str)
async def test_victims_on_small_clusters_are_those_of_trying_everything(seeds: range) -> None:
    assert sum([await preempts_the_cheapest(seed) for seed in seeds]) > 3


async def test_nodes_that_go_during_a_plan_are_no_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan looked for their pods, and blamed the shape of a field."""
    api = MemoryApi()
    for number in range(3):
        put_node(api, f"n{number}", pods=1)
        running(api, f"low-{number}", f"n{number}", priority=1)
    budgets = Evictor.budgets

    async def slow(self: Evictor) -> Any:
        cache = life.scheduler._cache
        if len(cache.nodes) == 3:
            for number in (1, 2):
                api.drop(NODES, f"n{number}")
            await until("the nodes are gone", lambda: len(cache.nodes) == 1)
            for number in (1, 2):
                api.drop(PODS, f"low-{number}", "ns")
            await until("their pods are gone", lambda: len(cache.placed) == 1)
        return await budgets(self)

    monkeypatch.setattr(Evictor, "budgets", slow)
    async with asyncio.timeout(60), Life(api) as life:
        put_pod(api, "high", priority=2)
        await until("the last is evicted", lambda: leaving(api) == ["low-0"])
    assert not [message for _, _, message in life.events.told if "wrong shape" in message]


async def test_victims_that_were_not_put_back_in_time_are_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        """The preemptor fits with all gone; of fewer it is not known once time is up."""

        async def fits(self, removed: frozenset[str]) -> bool:
            await asyncio.sleep(0.02)
            return len(removed) == 3

    monkeypatch.setattr(planner, "PLAN_TIMEOUT_S", 0.01)
    world, trial, load = MagicMock(), cast("Trial", Slow()), NodeLoad(node_view({"metadata": {"name": "n1"}}))
    victims = [Victim(name, "ns", name, 0, 0.0, {}, terminating=False) for name in "abc"]
    slow = planner.Planner(world, MagicMock())
    assert await slow._select(load, trial, victims, []) is None
