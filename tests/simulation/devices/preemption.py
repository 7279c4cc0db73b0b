"""Pods of several priorities that want more cpu and devices than there are: higher ones get in, and nobody too much."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocols.kinds.table import PODS, PRIORITYCLASSES, RESOURCECLAIMTEMPLATES
from protocols.kube.meta import Object, condition, name_of, terminating, uid_of
from protocols.kube.pods import node_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.control.workloads import NODES_COUNT
from tests.simulation.devices.driver import make_class
from tests.simulation.devices.ledger import Ledger, runs
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, created, listed, make_namespace, template, user

SHOWN_S = 20.0
"""A preemptor that is gone may have been there for the scheduler."""
CLASSES = {"low": -30, "middle": -20, "high": -10, "patient": -5}
"""Values of priority classes: pods of other flows have more, so that none is preempted. Patient ones preempt nobody."""
CPU = "1500m"
ROOM = {"cpu": 2, "devices": 1}
"""How many pods of each kind a node has room for."""


class Preemption:
    name = "preemption"
    pause_s = 0.8
    most = 9
    """Pods at a time."""

    def __init__(self) -> None:
        self._made = 0

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {f"preemptor-{number}": user(options, self._step, self.pause_s) for number in range(2)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await self._prepare(client)
        pods = await listed(client, PODS, self.name)
        if len(pods) < self.most:
            self._made += 1
            await self._make(client, chance)
        else:
            pod = self._leaving(chance, pods)
            await client.delete(PODS, name_of(pod), self.name, uid=uid_of(pod))

    def _leaving(self, chance: random.Random, pods: list[Object]) -> Object:
        return chance.choice(pods)

    async def _make(self, client: ApiClient, chance: random.Random) -> None:
        spec = self._spec(chance.choice(list(ROOM)), chance.choice(list(CLASSES)))
        await created(client, PODS, {"spec": spec}, f"pod-{self._made}", self.name)

    async def _prepare(self, client: ApiClient) -> None:
        await make_namespace(client, self.name)
        await make_class(client, self.name)
        exactly = {"deviceClassName": self.name, "count": 2}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        await created(client, RESOURCECLAIMTEMPLATES, {"spec": {"spec": spec}}, "devices", self.name)
        for name, value in CLASSES.items():
            policy = "Never" if name == "patient" else "PreemptLowerPriority"
            await created(client, PRIORITYCLASSES, {"value": value, "preemptionPolicy": policy}, f"{self.name}-{name}")

    def _spec(self, kind: str, priority: str) -> Object:
        spec: Object = {**template({})["spec"], "priorityClassName": f"{self.name}-{priority}"}
        resources = spec["containers"][0]["resources"]
        if kind == "cpu":
            resources["requests"]["cpu"] = CPU
        else:
            spec["resourceClaims"] = [{"name": kind, "resourceClaimTemplateName": kind}]
            resources["claims"] = [{"name": kind}]
        return spec

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        ledger, nominated = Ledger(), Nominated()
        for each in commits:
            yield from ledger.take(each)
            if each.resource == "pods":
                nominated.take(each)
                yield from nominated.judge(each)
                yield from self._judge(each, ledger, nominated)
                yield from _crowded(each, ledger)
        yield from ledger.at_end()
        yield from _at_end(list(ledger.pods.values()))

    def _judge(self, each: Written, ledger: Ledger, nominated: "Nominated") -> Iterator[Broken]:
        """Yield what else a commit of a pod breaks."""
        yield from ()


def kind_of(pod: Object) -> str:
    return "devices" if pod["spec"].get("resourceClaims") else "cpu"


def priority_of(pod: Object) -> int:
    return int(pod["spec"]["priority"])


def _nomination(pod: Object) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


class Nomination(NamedTuple):
    """A pod that was nominated to a node."""

    priority: int
    kind: str
    until: float
    """When it was seen so last; infinity while it still is."""


class Nominated:
    """Which pods that may preempt were nominated to a node."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], Nomination] = {}
        """By node and name."""

    def take(self, each: Written) -> None:
        if each.last["spec"].get("preemptionPolicy") == "Never":
            return
        before, after = (_nomination(obj or {}) for obj in (each.before, each.obj))
        priority, kind = priority_of(each.last), kind_of(each.last)
        if before and before != after:
            self._pods[before, each.name] = Nomination(priority, kind, each.at)
        if after:
            self._pods[after, each.name] = Nomination(priority, kind, float("inf"))

    def ahead(self, victim: Written, since_s: float = SHOWN_S) -> list[Nomination]:
        """Return those that a victim's node had in the seconds before, of pods that want what the victim has.

        One whose binding is still to be written may be of any node.
        """
        node, kind = node_of(victim.last), kind_of(victim.last)
        return [
            held for (where, _), held in self._pods.items()
            if held.kind == kind and node in ("", where) and held.until > victim.at - since_s
        ]  # fmt: skip

    def judge(self, each: Written) -> Iterator[Broken]:
        """Whoever is preempted makes room for a pod of higher priority that was nominated before."""
        ahead, priority = self.ahead(each), priority_of(each.last)
        if is_preempted(each) and not any(held.priority > priority for held in ahead):
            text = f"{each.name} of {priority} on {node_of(each.last)} at {each.revision}: nominated are {ahead}"
            yield Broken("victims make room for higher priorities", text)


def is_preempted(each: Written) -> bool:
    """Return True for the commit with which a pod is marked for its preemption."""
    return _has_to_go(each.obj) and not _has_to_go(each.before)


def _has_to_go(pod: Object | None) -> bool:
    return (condition(pod or {}, "DisruptionTarget") or {}).get("reason") == "PreemptionByScheduler"


def _crowded(each: Written, ledger: Ledger) -> Iterator[Broken]:
    """A pod is bound only where there is room for it."""
    node, kind = node_of(each.last), kind_of(each.last)
    if not runs(each.obj) or node_of(each.before or {}):
        return
    there = [name for name, pod in ledger.pods.items() if runs(pod) and (node_of(pod), kind_of(pod)) == (node, kind)]
    if len(there) > ROOM[kind]:
        yield Broken(
            "a node has room for its pods", f"{node} at {each.revision}: {sorted(there)}, room for {ROOM[kind]}"
        )


def _at_end(pods: Sequence[Object]) -> Iterator[Broken]:
    """No pod waits for room that is free or that a pod of lower priority has, and no nomination is left."""
    bound = Counter((node_of(pod), kind_of(pod)) for pod in pods if runs(pod))
    for pod in pods:
        name, kind = name_of(pod), kind_of(pod)
        if terminating(pod):
            yield Broken("converged", f"{name} is still to end")
        if _nomination(pod):
            yield Broken("converged", f"{name} is still nominated to {_nomination(pod)}")
        if runs(pod):
            continue
        lower = [name_of(each) for each in pods if runs(each) and _yields(each, pod)]
        free = [node for node in (f"n{number}" for number in range(NODES_COUNT)) if bound[node, kind] < ROOM[kind]]
        if free or lower:
            text = (
                f"{name} of {priority_of(pod)} waits, {lower} are lower, {free} have room for {kind}: {pod['status']}"
            )
            yield Broken("converged", text)


def _yields(pod: Object, preemptor: Object) -> bool:
    """Return True if a pod should have made room for the other."""
    if preemptor["spec"].get("preemptionPolicy") == "Never":
        return False
    return kind_of(pod) == kind_of(preemptor) and priority_of(pod) < priority_of(preemptor)
