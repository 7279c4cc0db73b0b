"""Scheduler and claim controller together over one API: pods come and go at random, answers are lost, both are killed.
No device is used by two pods at once, and in the end none is held."""

import asyncio
import logging
import random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from actors.controllers.claims.controller import ResourceClaimController
from actors.controllers.claims.metrics import ClaimMetrics
from actors.controllers.common.informers import ChangeHandler
from protocols.kinds.table import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, Resource
from protocols.kube.meta import Object, meta
from tests.support.memory_api import Events, Follower, MemoryApi, away, conflict
from tests.support.scheduler_life import Life, bound, devices, held, held_by_all, put_class, put_node, put_slice, until

DEVICES = 4


class Watched(MemoryApi):
    """Counts users of each device whenever a pod or claim changes."""

    def _store(self, resource: Resource, obj: Object) -> Object:
        stored = super()._store(resource, obj)
        if resource in (PODS, RESOURCECLAIMS):
            users = [device for claim in self._used() for device in held(self, claim)]
            assert len(users) == len(set(users)), f"used twice after {meta(obj)['name']}: {sorted(users)}"
        return stored

    def _used(self) -> set[str]:
        running = [pod for pod in self.objects["pods"].values() if pod["spec"].get("nodeName")]
        named = (each for pod in running for each in pod["status"].get("resourceClaimStatuses") or ())
        names = {each["resourceClaimName"] for each in named}
        return {name for name in names if f"ns/{name}" in self.objects["resourceclaims"]}


class Controller:
    """One life of the claim controller."""

    def __init__(self, api: MemoryApi) -> None:
        fake: Any = api
        recorder: Any = Events()
        controller = ResourceClaimController(
            fake, recorder, logging.getLogger("test"), ClaimMetrics(CollectorRegistry())
        )
        self._followers = [
            Follower(api, RESOURCECLAIMTEMPLATES, ChangeHandler(controller.template_changed, lambda template: None)),
            Follower(api, RESOURCECLAIMS, ChangeHandler(controller.claim_changed, controller.claim_gone)),
            Follower(api, PODS, ChangeHandler(controller.pod_changed, controller.pod_gone)),
        ]
        controller.templates, controller.claims, controller.pods = (each.items for each in self._followers)
        self._tasks = [asyncio.create_task(controller.run()), asyncio.create_task(self._read())]

    async def _read(self) -> None:
        while True:
            for each in self._followers:
                each.read(random.randint(1, 5))
            await asyncio.sleep(0.001)

    async def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def put_pod(api: MemoryApi, name: str) -> None:
    spec = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    api.put(PODS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {}})


def collect(api: MemoryApi) -> None:
    """What the garbage collector does with claims of pods that are gone."""
    uids = {meta(pod)["uid"] for pod in api.objects["pods"].values()}
    for claim in list(api.objects["resourceclaims"].values()):
        owner = meta(claim)["ownerReferences"][0]["uid"]
        if owner not in uids and not meta(claim).get("finalizers"):
            api.drop(RESOURCECLAIMS, meta(claim)["name"], "ns")


@pytest.mark.parametrize("seed", range(5))
async def test_pods_come_and_go(seed: int) -> None:
    api, chance = Watched(seed), random.Random(seed)
    put_class(api)
    put_node(api, "n1")
    put_slice(api, "n1", *devices(DEVICES))
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    template = {"spec": {"devices": {"requests": [request]}}}
    api.put(RESOURCECLAIMTEMPLATES, {"metadata": {"name": "t", "namespace": "ns"}, "spec": template})

    def fault(verb: str, resource: Resource, name: str) -> Exception | None:
        return chance.choice([conflict, away])() if chance.random() < 0.06 else None

    api.fault = api.lose = fault
    life, controller = Life(api), Controller(api)
    await life.__aenter__()
    for _ in range(60):
        name = f"p{chance.randint(0, 7)}"
        if f"ns/{name}" in api.objects["pods"]:
            api.drop(PODS, name, "ns")
        else:
            put_pod(api, name)
        await asyncio.sleep(chance.choice([0.0, 0.002, 0.02]))
        collect(api)
        if chance.random() < 0.1:
            await life.__aexit__(None, None, None)
            life = Life(api)
            await life.__aenter__()
        if chance.random() < 0.1:
            await controller.kill()
            controller = Controller(api)
    api.fault = api.lose = lambda verb, resource, name: None
    for pod in list(api.objects["pods"].values()):
        api.drop(PODS, meta(pod)["name"], "ns")

    def empty() -> bool:
        collect(api)
        return not api.objects["resourceclaims"] and not held_by_all(api)

    await until("nothing is left", empty)
    for at in range(DEVICES):
        put_pod(api, f"last{at}")
    await until("every device can be had again", lambda: len(bound(api)) == DEVICES)
    await life.__aexit__(None, None, None)
    await controller.kill()
