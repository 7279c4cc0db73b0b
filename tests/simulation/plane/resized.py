"""The resized profile: the plane profile with pods whose CPU is resized in place, below a quota.

There is no restore: what a backup takes back was accepted, and is not the last size.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from actors.scheduler.actor import Scheduler
from actors.scheduler.cycles.scheduling_cycle import SchedulingDecision
from protocols.kinds.table import PODS, RESOURCEQUOTAS
from protocols.kube.meta import Object, condition, labels_of, name_of, terminating, uid_of
from protocols.kube.pods import is_finished, node_of
from protocols.kubeclient.client import ApiClient
from protocols.lifecycle.node import resize
from protocols.lifecycle.pods.resources import Sizes, milli
from protocols.lifecycle.pods.types import PodSpec
from tests.simulation.control.servers import client_options
from tests.simulation.model import Broken
from tests.simulation.node.machine import Node
from tests.simulation.node.oracle import TOLD_S
from tests.simulation.node.pods import NAMESPACE, hollow_pod
from tests.simulation.plane.profile import PlaneProfile
from tests.simulation.workloads.flow import Written, created, in_order, listed, user
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.world.world import World

ALLOCATABLE, HARD = 7000, 14_000
"""CPU of a node, and what the quota of the namespace allows, in thousandths."""
CPUS = "200m", "500m", "1", "2", "3", "4", "7500m"
"""Requests; the last one is more than a node has."""
LIMIT = "8"
MEMORY = "64Mi", "128Mi"
MOST, DELETED = 5, 0.1
"""Resized pods at a time, and the share of the steps that delete one."""
PAUSE_S = 0.5
SHOWN_S = 10.0
"""The scheduler may have seen nothing newer than this."""
SIZED = {"app": "sized"}
RESIZER, QUOTA, ALLOCATED = "resizer", "cpus", "allocated"
Known = Mapping[str, Object]
"""Pods by key, as a process has been shown them."""


class ResizedProfile(PlaneProfile):
    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self.kinds = tuple(kind for kind in self.kinds if kind != "restore")
        self.resizer = Resizer()
        main = user(client_options(self.control.settings, "admin"), self.resizer.step, PAUSE_S)
        self._clients[RESIZER] = self.processes[RESIZER] = main
        self.targets += (RESIZER,)
        self._overdrawn: list[Broken] = []
        self._decided: dict[str, float] = {}
        """When the scheduler chose a node for a pod, by uid: the binding may wait for claims and for an API server."""
        self._note_allocations()
        self._note_placements()

    def _note_allocations(self) -> None:
        """Add up what each pod worker allocates to pods that run, whenever it allocates more to one."""
        allocate = resize.allocate

        def noted(spec: PodSpec, sizes: Sizes, limits: resize.ResizeLimits) -> Any:
            before = _cpu_of(sizes)
            events = allocate(spec, sizes, limits)
            held: dict[str, int] = running(self.world).notes.setdefault(ALLOCATED, {})
            held[spec.uid] = _cpu_of(sizes)
            if held[spec.uid] > before:
                self._add_up(held, spec)
            return events

        patch(resize, "allocate", noted)

    def _note_placements(self) -> None:
        """Judge each placement by what the scheduler has been shown, before its cycle and after it."""
        place = Scheduler._run_scheduling_cycle

        async def placed(scheduler: Scheduler, uid: str) -> SchedulingDecision | None:
            before = dict(scheduler._pods.items)
            decision = await place(scheduler, uid)
            if decision is not None:
                pod = cast("Object", decision.pod)
                self._decided[uid] = self.world.elapsed
                self._overdrawn += known_room(pod, decision.node, before, scheduler._pods.items)
            return decision

        patch(Scheduler, "_run_scheduling_cycle", placed)

    def _add_up(self, held: dict[str, int], spec: PodSpec) -> None:
        name = running(self.world).name
        node = next(each for each in self.nodes if name.startswith(each.prefix))
        there = {run.pod for run in node.witness.running.values()} | {spec.uid}
        total = sum(cpu for uid, cpu in held.items() if uid in there)
        if total > ALLOCATABLE:
            text = f"{node.name} allocates {total} with {spec.name}"
            self._overdrawn.append(Broken("no node is given more than it has", text, self.world.elapsed))

    def quiesce(self) -> None:
        super().quiesce()
        self.resizer.ended = True

    def check(self) -> list[Broken]:
        commits = [each for each in in_order(self.control.history) if each.namespace == NAMESPACE]
        found = [*super().check(), *self._overdrawn, *judged(commits, self._decided)]
        pods = {each.name: each.obj for each in commits if each.resource == "pods"}
        there = [pod for pod in pods.values() if pod is not None and node_of(pod)]
        for node in self.nodes:
            found += _at_end(node, [pod for pod in there if node_of(pod) == node.name])
        return found


class Resizer:
    """A user who creates pods, resizes them, and deletes some."""

    def __init__(self) -> None:
        self._made = 0
        self.ended = False

    async def step(self, client: ApiClient, chance: random.Random) -> None:
        if self.ended or not await self._is_limited(client):
            return
        pods = [pod for pod in await listed(client, PODS, NAMESPACE) if labels_of(pod) == SIZED]
        if len(pods) < MOST:
            self._made += 1
            await client.create(PODS, _sized(f"sized-{self._made}", chance), NAMESPACE)
        elif chance.random() < DELETED:
            await client.delete(PODS, name_of(chance.choice(pods)), NAMESPACE)
        if pods:
            size = {"requests": {"cpu": chance.choice(CPUS), "memory": MEMORY[0]}, "limits": _limits(chance)}
            body = {"spec": {"containers": [{"name": "main", "resources": size}]}}
            name = name_of(chance.choice(pods))
            await client.patch(PODS, name, NAMESPACE, body, kind="strategic", subresource="resize")

    async def _is_limited(self, client: ApiClient) -> bool:
        """Return True once the quota is counted; as upstream, it limits nothing before."""
        hard = {"requests.cpu": f"{HARD}m"}
        if await created(client, RESOURCEQUOTAS, {"spec": {"hard": hard}}, QUOTA, NAMESPACE):
            return False
        return bool((await client.get(RESOURCEQUOTAS, QUOTA, NAMESPACE)).get("status"))


def _limits(chance: random.Random) -> dict[str, str]:
    return {"cpu": LIMIT, "memory": chance.choice(MEMORY)}


def _sized(name: str, chance: random.Random) -> Object:
    pod = hollow_pod(name, _limits(chance), chance)
    pod["metadata"] = {"name": name, "labels": SIZED, "annotations": {"nodeplane.dev/hollow": "true"}}
    pod["spec"]["restartPolicy"] = "Always"
    container = pod["spec"]["containers"][0]
    container["resources"]["requests"] = {"cpu": chance.choice(CPUS[:4]), "memory": MEMORY[0]}
    policy = chance.choice(("NotRequired", "RestartContainer"))
    container["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": policy}]
    return pod


def _cpu_of(sizes: Sizes) -> int:
    return sum(milli(each["requests"].get("cpu")) for each in (sizes.allocated or {}).values())


def _wanted(pod: Object) -> int:
    """Return the CPU that a pod requests, in thousandths."""
    return milli(pod["spec"]["containers"][0]["resources"]["requests"].get("cpu"))


def _status(pod: Object) -> Object:
    return next(iter((pod.get("status") or {}).get("containerStatuses") or ()), {})


def _allocated(pod: Object) -> int:
    """Return the CPU that its node shows as allocated; without that what it requests."""
    amount = (_status(pod).get("allocatedResources") or {}).get("cpu")
    return milli(amount) if amount is not None else _wanted(pod)


def _is_infeasible(pod: Object) -> bool:
    return (condition(pod, "PodResizePending") or {}).get("reason") == "Infeasible"


def _least(pod: Object) -> int:
    return _allocated(pod) if _is_infeasible(pod) else max(_wanted(pod), _allocated(pod))


def judged(commits: Iterable[Written], decided: Mapping[str, float] = MappingProxyType({})) -> Iterator[Broken]:
    """Sums of all pods never exceed the quota, nor those of a node its room when it was chosen for a pod.

    `decided`: elapsed seconds of the choice by uid; without it, when the pod is bound.

    A quota counts no pod whose deletion is overdue.
    """
    pods: dict[str, list[tuple[float, Object]]] = {}
    """What each pod was since, the newest last."""
    limited = False
    for each in commits:
        limited = limited or (each.resource == "resourcequotas" and bool((each.last.get("status") or {}).get("hard")))
        if each.resource != "pods":
            continue
        if each.obj is None or is_finished(each.obj):
            pods.pop(each.name, None)
            continue
        pods.setdefault(each.name, []).append((each.at, each.obj))
        total = sum(_wanted(pod) for states in pods.values() if not terminating(pod := states[-1][1]))
        if limited and total > HARD and _wanted(each.obj) > (_wanted(each.before) if each.before else 0):
            yield Broken("a quota is not exceeded", f"{total} with {each.name} at {each.revision}")
        if node_of(each.obj) and not node_of(each.before or {}):
            yield from _crowded(each, pods, decided.get(uid_of(each.last), each.at))


def _crowded(each: Written, pods: dict[str, list[tuple[float, Object]]], chosen: float) -> Iterator[Broken]:
    node = node_of(each.last)
    here = [states for states in pods.values() if node_of(states[-1][1]) == node]
    least = [min(map(_least, _recent(states, chosen - SHOWN_S))) for states in here]
    if sum(least) > ALLOCATABLE:
        yield Broken("a node has room for its pods", f"{each.name} on {node} at {each.revision}: {least}")


def _recent(states: list[tuple[float, Object]], since: float) -> Iterator[Object]:
    """Yield what a pod was at a time, and since."""
    for at, state in reversed(states):
        yield state
        if at <= since:
            return


def known_room(placed: Object, node: str, before: Known, now: Known) -> Iterator[Broken]:
    """Pods hold no more than their node has, with the one that it is given, as far as the scheduler knows of them."""
    here = [key for key, pod in now.items() if node_of(pod) == node and not is_finished(pod) and key in before]
    held = {key: min(_least(before[key]), _least(now[key])) for key in here}
    if sum(held.values()) + _wanted(placed) > ALLOCATABLE:
        yield Broken("a node has room for its pods", f"{name_of(placed)} on {node} beside {held}")


def _at_end(node: Node, pods: list[Object]) -> Iterator[Broken]:
    """The last size that was accepted is there if it fits, and else the status says why not."""
    held = sum(map(_allocated, pods))
    runtime, recent = node.actor("runtime")._server.pods, node.world.elapsed - TOLD_S
    for pod in pods:
        started = _status(pod).get("containerID", "").rpartition("/")[2]
        if labels_of(pod) != SIZED or terminating(pod) or is_finished(pod) or started not in node.witness.running:
            continue
        wanted, allocated = _wanted(pod), _allocated(pod)
        pending, going = (condition(pod, f"PodResize{each}") or {} for each in ("Pending", "InProgress"))
        shown = milli(((_status(pod).get("resources") or {}).get("requests") or {}).get("cpu"))
        has = runtime.containers[started].config.linux.resources.cpu_shares
        text = (
            f"{name_of(pod)} wants {wanted}, has {allocated} allocated, shows {shown}, {has} shares: {pending} {going}"
        )
        if going or shown != allocated or (node.witness.changed[started] < recent and has != allocated * 1024 // 1000):
            yield Broken("what is allocated is actuated", text)
        reason = "Infeasible" if wanted > ALLOCATABLE else "Deferred"
        fits = held - allocated + wanted <= ALLOCATABLE
        if wanted != allocated and (fits or pending.get("reason") != reason):
            yield Broken("the last size is reached", text)
        if wanted == allocated and pending:
            yield Broken("the last size is reached", text)
