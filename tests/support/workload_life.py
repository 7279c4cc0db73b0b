"""Controllers of workloads with informers that lag, an API that fails, and nodes that run pods, all in one seed.

One step reads an informer, makes a pass over an object, schedules a pod, lets a pod start or end, or kills the
controllers. Objects are checked after each.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from actors.controllers.common.informers import LateHandler
from actors.controllers.workloads.common.controller import Tools, WorkloadController
from actors.controllers.workloads.common.pods import PodView, pod_view, target_of, trim_pod
from actors.controllers.workloads.jobs.controller import ORPHAN
from actors.controllers.workloads.routing import Router
from actors.controllers.workloads.start import KINDS
from protocols.kinds.table import CONTROLLERREVISIONS, NODES, PODS, REPLICASETS, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, key_of, meta, name_of
from protocols.kube.times import format_time
from tests.support.memory_api import Events, Follower, MemoryApi, away, conflict

FOLLOWED = (PODS, CONTROLLERREVISIONS, *KINDS)
ROUNDS = 400


class Killed(BaseException):
    """The controllers died right after a write."""


class WorkloadLife:
    def __init__(self, seed: int, *, faults: float = 0.0, kills: float = 0.0, nodes: int = 3) -> None:
        self.random = random.Random(seed)
        self.api = _Generations(seed)
        self.events = Events()
        self.check: Callable[[], None] = lambda: None
        self.end: Callable[[PodView], str] = lambda pod: ""
        """Phase that a running pod ends in; empty to go on."""
        self._faults, self._kills, self._passed = faults, kills, 0.0
        self.kills = 0
        self.in_step = False
        """Before each pass over a Deployment, everything is known and the ReplicaSets' statuses are current."""
        for number in range(nodes):
            self.node(f"n{number}")
        self.restart()

    # the world

    def clock(self) -> float:
        return time.time() + self._passed

    def node(self, name: str, **spec: Any) -> None:
        self.api.put(NODES, {"metadata": {"name": name, "labels": {"name": name}}, "spec": spec})

    def objects(self, resource: Resource) -> list[Object]:
        return list(self.api.objects[resource.plural].values())

    def objects_of(self, plural: str) -> list[Object]:
        return list(self.api.objects[plural].values())

    def pods(self) -> list[PodView]:
        return [pod_view(trim_pod(pod)) for pod in self.objects(PODS)]

    def change(self, resource: Resource, name: str, **spec: Any) -> None:
        """Change the spec as a user does."""
        known = self.api.objects[resource.plural][f"default/{name}"]
        self.api.put(resource, {**known, "spec": {**known["spec"], **spec}})

    def restart(self) -> None:
        """New controllers, whose informers list afresh."""
        nodes = Follower(self.api, NODES, LateHandler())
        self.router = Router(nodes.items)
        self.followers: list[Follower] = [nodes]
        logger = logging.getLogger("life")
        tools = Tools(client=self.api, recorder=self.events, log=logger, clock=self.clock)  # type: ignore[arg-type]  # a fake
        for resource in KINDS:
            self.router.add(resource, tools)
        for resource in FOLLOWED:
            self._follow(resource)

    def _follow(self, resource: Resource) -> None:
        handler = LateHandler()
        follower = _Trimmed(self.api, resource, handler)
        index, controller = self.router.index(resource), self.router.controllers.get(resource.kind)
        if index is not None:
            index.items = follower.items
            handler.add(index, ())
        if controller is not None:
            controller.items = follower.items
            handler.add(controller, ())
        for obj in list(follower.items.values()):
            handler.on_add(obj)
        self.followers.append(follower)

    def follower(self, resource: Resource) -> Follower:
        return next(follower for follower in self.followers if follower._resource is resource)

    # steps

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            await self._any_step()
            self.check()

    async def settle(self, done: Callable[[], bool]) -> None:
        """Let everybody work without faults until `done` stays true."""
        self._faults, self._kills, calm = 0.0, 0.0, 0
        for _ in range(ROUNDS):
            for follower in self.followers:
                follower.read(follower.behind)
            calm = calm + 1 if done() else 0
            if calm > 2:
                return
            for controller, key in list(self._keys()):
                await self._pass(controller, key)
            for pod in self.pods():
                self._live(pod)
            self._passed += 60.0
            self.check()
        raise AssertionError(f"does not settle: {[(p.name, p.phase, p.deleting) for p in self.pods()]}")

    async def _any_step(self) -> None:
        match self.random.randint(0, 9):
            case 0 | 1 | 2:
                follower = self.random.choice(self.followers)
                follower.read(self.random.randint(1, 4))
            case 3 | 4 | 5 | 6:
                if keys := list(self._keys()):
                    await self._pass(*self.random.choice(keys))
            case 7 | 8:
                if pods := self.pods():
                    self._live(self.random.choice(pods))
            case _:
                self._passed += self.random.choice((0.1, 1.0, 30.0))

    def _keys(self) -> Iterator[tuple[WorkloadController, tuple[str, str]]]:
        for controller in self.router.controllers.values():
            for key in controller.items:
                yield controller, (controller.kind, key)
            if controller.kind == "Job":
                for key in self.router.pods.items:
                    yield controller, (ORPHAN, key)

    async def _pass(self, controller: WorkloadController, key: tuple[str, str]) -> None:
        if self.in_step and controller.kind == "Deployment":
            await self._catch_up()
        self.api.fault = lambda verb, resource, name: self._fault()
        self.api.lose = lambda verb, resource, name: self._loss()
        try:
            await controller._step(key)
        except (ApiAway, ApiError):
            pass
        except Killed:
            self.kills += 1
            self.restart()
        finally:
            self.api.fault = self.api.lose = lambda verb, resource, name: None

    async def _catch_up(self) -> None:
        replica_sets = self.router.controllers["ReplicaSet"]
        for _ in range(2):
            for follower in self.followers:
                follower.read(follower.behind)
            for key in list(replica_sets.items):
                await self._pass(replica_sets, ("ReplicaSet", key))
        for follower in self.followers:
            follower.read(follower.behind)

    def _fault(self) -> Exception | None:
        if self.random.random() >= self._faults:
            return None
        return self.random.choice((conflict(), away()))

    def _loss(self) -> BaseException | None:
        if self.random.random() < self._kills:
            return Killed()
        return away() if self.random.random() < self._faults else None

    def _live(self, pod: PodView) -> None:
        """One step of the scheduler or of the pod's node."""
        if not pod.node and not pod.deleting:
            names = [name_of(node) for node in self.objects(NODES)]
            known = self.api.objects["pods"][key_of(pod.obj)]
            node = target_of(known) or self.random.choice(names)
            self.api.put(PODS, {**known, "spec": {**known["spec"], "nodeName": node}})
        elif pod.deleting:
            self._remove(pod)
        elif pod.finished:
            return
        elif not pod.ready:
            self.set_phase(pod, "Running")
        elif ended := self.end(pod):
            self.set_phase(pod, ended)

    def _remove(self, pod: PodView) -> None:
        if pod.node and not pod.finished:
            self.set_phase(pod, "Failed")
        elif not meta(pod.obj).get("finalizers"):
            self.api.drop(PODS, pod.name, pod.namespace)

    def set_phase(self, pod: PodView, phase: str) -> None:
        known = self.api.objects["pods"][key_of(pod.obj)]
        stamp = format_time(self.clock())
        ready = {"type": "Ready", "status": str(phase == "Running"), "lastTransitionTime": stamp}
        code = {"Failed": 1, "Succeeded": 0}.get(phase)
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code, "finishedAt": stamp}}
        statuses = [{"name": "a", "restartCount": 0, "state": state}]
        self.api.put(PODS, {**known, "status": {"phase": phase, "conditions": [ready], "containerStatuses": statuses}})


class _Generations(MemoryApi):
    """Counts changes of the spec, as the API server does."""

    def _store(self, resource: Resource, obj: Object) -> Object:
        known = self.objects[resource.plural].get(key_of(obj))
        if known is not None and known.get("spec") != obj.get("spec") and resource is not PODS:
            generation = int(meta(known).get("generation") or 1) + 1
            obj = {**obj, "metadata": {**meta(obj), "generation": generation}}
        elif known is None:
            obj = {**obj, "metadata": {"generation": 1, **meta(obj)}}
        return super()._store(resource, obj)


class _Trimmed(Follower):
    """Pods as the informer retains them."""

    def _take(self, kind: str, obj: Object) -> None:
        super()._take(kind, trim_pod(obj) if self._resource is PODS else obj)


def owned(life: WorkloadLife, name: str) -> list[PodView]:
    """The pods of ReplicaSets, DaemonSets and Jobs whose name begins so."""
    return [pod for pod in life.pods() if pod.owner is not None and pod.owner.name.startswith(name)]


def template(app: str, version: str = "1", **spec: Any) -> Object:
    container = {"name": "a", "image": f"a:{version}"}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(name: str, kind: str, **spec: Any) -> Object:
    whole = {"selector": {"matchLabels": {"app": name}}, "template": template(name), **spec}
    group = "batch/v1" if kind == "Job" else "apps/v1"
    metadata = {"name": name, "namespace": "default", "generation": 1}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": whole}


def sets(life: WorkloadLife) -> list[Object]:
    return life.objects(REPLICASETS)
