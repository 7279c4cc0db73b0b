"""A user of the API: creates pods with devices and claims, deletes some, and removes those that have ended."""

import asyncio
import random
from typing import TYPE_CHECKING, Any

from protocols.kinds.table import DEVICECLASSES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, meta
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.simulation.control.clients import Silent
from tests.simulation.node.machine import GPU, NIC
from tests.simulation.node.pods import NAMESPACE, card_request, has_ended, hollow_pod, with_card
from tests.simulation.node.simulators import DRIVER
from tests.simulation.world.process import Process

if TYPE_CHECKING:
    from tests.simulation.model import Main
    from tests.simulation.world.world import World

CARD = "card"
RETRY_S = 0.3
VERSION = "resource.k8s.io/v1"


class User:
    """Its informers live on after the load has ended: what they hold then must be what is stored."""

    def __init__(self, world: "World", name: str, options: ClientOptions) -> None:
        self.name, self._world, self._options = name, world, options
        self._chance = world.random(f"load/{name}")
        self._pause = 1 / world.draw("pods_per_s", 0.5, 2.0)
        self._most = int(world.draw("most_pods", 6, 16, 30))
        self._deleted = world.draw("deleted_share", 0.1, 0.4)
        self.made = 0
        self.ended = self.prepared = False

    def main(self) -> "Main":
        async def main(process: Process) -> None:
            client = ApiClient(self._options)
            await client.start()
            informers = {each: Informer(client, each, InformerOptions(), Silent()) for each in (PODS, RESOURCECLAIMS)}
            process.notes["held"] = {each.plural: informer for each, informer in informers.items()}
            async with asyncio.TaskGroup() as tasks:
                for informer in informers.values():
                    tasks.create_task(informer.run())
                tasks.create_task(self._work(client, informers[PODS].items, informers[RESOURCECLAIMS].items))

        return main

    async def _work(self, client: ApiClient, pods: dict[str, Object], claims: dict[str, Object]) -> None:
        while not self.ended:
            await asyncio.sleep(self._chance.expovariate(1 / self._pause))
            try:
                self.prepared = self.prepared or await self._prepare(client)
                await self._step(client, list(pods.values()), list(claims.values()))
            except (ApiError, ApiAway):
                await asyncio.sleep(RETRY_S)

    async def _prepare(self, client: ApiClient) -> bool:
        """Create the class of cards, and a template of claims for one; return True if they are there."""
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        card = {"apiVersion": VERSION, "kind": "DeviceClass", "spec": {"selectors": [selector]}}
        template = {"apiVersion": VERSION, "kind": "ResourceClaimTemplate", "spec": {"spec": card_request()}}
        return await _created(client, DEVICECLASSES, card, CARD, "") and await _created(
            client, RESOURCECLAIMTEMPLATES, template, CARD, NAMESPACE
        )

    async def _step(self, client: ApiClient, pods: list[Object], claims: list[Object]) -> None:
        for pod in pods:
            if has_ended(pod) and not meta(pod).get("deletionTimestamp"):
                await self._delete(client, pod)
        names = {meta(pod)["name"] for pod in pods}
        for claim in claims:
            name = meta(claim)["name"]
            if not meta(claim).get("ownerReferences") and name not in names and not await _has_pod(client, name):
                await _gone(client, RESOURCECLAIMS, claim)
        if len(pods) < self._most:
            await self._make(client)
        if pods and self._chance.random() < self._deleted:
            await self._delete(client, self._chance.choice(pods))

    async def _delete(self, client: ApiClient, pod: Object) -> None:
        await _gone(client, PODS, pod, self._chance.choice((0, 1, 2)) if pod["spec"].get("nodeName") else None)

    async def _make(self, client: ApiClient) -> None:
        chance = self._chance
        self.made += 1
        name = f"pod-{self.made}"
        pod = hollow_pod(name, _limits(chance), chance)
        kind = chance.random()
        if kind < 0.2:
            with_card(pod, {"resourceClaimTemplateName": CARD})
        elif kind < 0.4:
            with_card(pod, {"resourceClaimName": name})
            claim: Object = {"apiVersion": VERSION, "kind": "ResourceClaim", "spec": card_request()}
            await client.create(RESOURCECLAIMS, {**claim, "metadata": {"name": name}}, NAMESPACE)
        await client.create(PODS, pod, NAMESPACE)


def _limits(chance: random.Random) -> dict[str, str]:
    limits = {"memory": "64Mi", "cpu": "1" if chance.random() < 0.3 else "100m"}
    wanted: dict[str, Any] = {GPU: chance.choice((0, 0, 1, 2)), NIC: chance.choice((0, 0, 1))}
    return limits | {resource: str(count) for resource, count in wanted.items() if count}


async def _has_pod(client: ApiClient, name: str) -> bool:
    """Ask the API itself: one informer may be ahead of another."""
    try:
        await client.get(PODS, name, NAMESPACE)
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return True


async def _created(client: ApiClient, resource: Resource, obj: Object, name: str, namespace: str) -> bool:
    """Return True if it is there."""
    try:
        await client.create(resource, {**obj, "metadata": {"name": name}}, namespace)
    except ApiError as error:
        return error.code == 409
    except ApiAway:
        return False
    return True


async def _gone(client: ApiClient, resource: Resource, obj: Object, grace: int | None = None) -> None:
    """Delete this very object; one that is gone is so."""
    try:
        await client.delete(resource, meta(obj)["name"], NAMESPACE, uid=meta(obj)["uid"], grace=grace)
    except ApiError as error:
        if error.code not in (404, 409):
            raise
