"""Pods of two schedulers that want the same devices: what both gave away is one pod's in the end.

The second one is a stand-in. Whichever scheduler allocates a device finds out by reading its own write back whether a
claim that was written before has it; the stand-in yields to any other claim.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from protocols.dra.pods import (
    allocation_of,
    deallocated,
    device_of,
    has_finalizer,
    reserving,
    results_of,
    used_claims,
    with_finalizer,
)
from protocols.dra.types import DeviceId
from protocols.kinds.table import NODES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from protocols.kube.meta import Object, name_of, terminating, uid_of
from protocols.kube.pods import node_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.control.workloads import NODES_COUNT
from tests.simulation.devices.driver import DEVICES, driver_name, make_class, templated
from tests.simulation.devices.ledger import Ledger, runs
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, created, listed, make_namespace, user

PAUSE_S, RIVAL_PAUSE_S = 0.4, 0.3
MOST = 10
"""Pods at a time: there are fewer devices."""
RIVAL = "rival"
"""The name of the other scheduler."""


class Rivals:
    name = "rivals"

    def __init__(self) -> None:
        self._made = 0

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {"tenant": user(options, self._step, PAUSE_S), RIVAL: user(options, self._schedule, RIVAL_PAUSE_S)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        await make_class(client, self.name)
        spec: Object = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": self.name}}]}}
        await created(client, RESOURCECLAIMTEMPLATES, {"spec": {"spec": spec}}, "device", self.name)
        pods = await listed(client, PODS, self.name)
        if len(pods) < MOST:
            self._made += 1
            scheduler = chance.choice((RIVAL, "default-scheduler"))
            spec = templated("device", schedulerName=scheduler)
            await created(client, PODS, {"spec": spec}, f"pod-{self._made}", self.name)
        elif pods:
            pod = chance.choice(pods)
            await client.delete(PODS, name_of(pod), self.name, uid=uid_of(pod))

    async def _schedule(self, client: ApiClient, chance: random.Random) -> None:
        """Allocate a device to one pod, or bind it if that was done before, and nobody else has the device."""
        pods = [pod for pod in await listed(client, PODS, self.name) if _is_rivals(pod) and not node_of(pod)]
        if not pods:
            return
        pod: Any = chance.choice(pods)
        claims: dict[str, Any] = {name_of(claim): claim for claim in await listed(client, RESOURCECLAIMS, self.name)}
        mine = next((claims[name] for name in used_claims(pod) if name in claims), None)
        if mine is None:
            return
        if allocation_of(mine) is None:
            mine = await self._allocated(client, chance, pod, mine, _held(claims.values()))
            claims = {name_of(claim): claim for claim in await listed(client, RESOURCECLAIMS, self.name)}
        others = [claim for name, claim in claims.items() if name != name_of(mine)]
        if set(_held([mine])) & set(_held(others)):
            await client.update(RESOURCECLAIMS, deallocated(mine), self.name, "status")
        elif allocation_of(mine) is not None:
            await self._bind(client, pod, mine)

    async def _allocated(
        self, client: ApiClient, chance: random.Random, pod: Any, claim: Any, held: Sequence[DeviceId]
    ) -> Any:  # fmt: skip
        """Allocate a device that no claim held, if one is free; return the claim as it is then."""
        pool = f"{self.name}-n{chance.randrange(NODES_COUNT)}"
        devices = [DeviceId(driver_name(self.name), pool, f"d{number}") for number in range(DEVICES)]
        free = [device for device in devices if device not in held]
        if not free:
            return claim
        if not has_finalizer(claim):
            claim = await client.update(RESOURCECLAIMS, with_finalizer(claim), self.name)
        written = reserving(claim, pod, _allocation(chance.choice(free), pool.removeprefix(f"{self.name}-")))
        return await client.update(RESOURCECLAIMS, written, self.name, "status")

    async def _bind(self, client: ApiClient, pod: Object, claim: Any) -> None:
        node = device_of(results_of(claim)[0]).pool.removeprefix(f"{self.name}-")
        metadata = {"name": name_of(pod), "uid": uid_of(pod)}
        binding = {"metadata": metadata, "target": {**NODES.type_meta, "name": node}}
        query = {"reservedClaims": name_of(claim)}
        await client.create(PODS, binding, self.name, "binding", query=query)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        ledger = Ledger()
        for each in commits:
            yield from ledger.take(each)
        yield from ledger.at_end()
        held = set(_held(ledger.claims.values()))
        for name, pod in ledger.pods.items():
            if terminating(pod):
                yield Broken("converged", f"{name} is still to end")
            elif not runs(pod) and not _is_rivals(pod):
                if has := _held(map(ledger.claim, used_claims(pod))):
                    yield Broken("converged", f"{name} waits and has {has}")
                elif len(held) < NODES_COUNT * DEVICES:
                    yield Broken("converged", f"{name} waits, only {sorted(held)} are held: {pod.get('status')}")


def _is_rivals(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulerName") == RIVAL)


def _held(claims: Iterable[Any]) -> list[DeviceId]:
    return [device_of(result) for claim in claims for result in results_of(claim)]


def _allocation(device: DeviceId, node: str) -> Any:
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    result = {"request": "r", "driver": device.driver, "pool": device.pool, "device": device.device}
    selector = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    return {"devices": {"results": [result]}, "nodeSelector": selector}
