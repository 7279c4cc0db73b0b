"""Claims that several pods share, while claims and pods come and go: nobody's devices are given to others."""

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from protocols.dra import pods as dra_pods
from protocols.dra.pods import allocation_of, consumers, device_of, results_of, used_claims
from protocols.kinds.check.table import Struct
from protocols.kinds.check.table import each as each_row
from protocols.kinds.dra import allocation
from protocols.kinds.table import PODS, RESOURCECLAIMS
from protocols.kube.meta import Object, name_of, terminating, uid_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.control.workloads import NODES_COUNT
from tests.simulation.devices.driver import DEVICES, make_class
from tests.simulation.devices.ledger import Ledger, runs
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, created, listed, make_namespace, template, user
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.world import World

PAUSE_S = 0.5
CLAIMS, MOST = 4, 10
"""Claims, and pods, at a time."""
DELETED = 0.25
"""Share of the steps that delete a claim."""


def draw_consumers(world: "World") -> None:
    """Draw how many pods may share a claim."""
    most = int(world.draw("consumers", 2, 4, dra_pods.MAX_CONSUMERS))
    patch(dra_pods, "MAX_CONSUMERS", most)
    row = Struct("resource name uid")
    patch(allocation, "_CONSUMERS", each_row(row, limit=most, key=lambda consumer: consumer.get("uid")))


class Shared:
    name = "shared"

    def __init__(self) -> None:
        self._made = 0

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {f"sharer-{number}": user(options, self._step, PAUSE_S) for number in range(2)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        await make_class(client, self.name)
        name = f"claim-{chance.randrange(CLAIMS)}"
        exactly = {"deviceClassName": self.name, "count": chance.choice((1, 1, 2))}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        if not await created(client, RESOURCECLAIMS, {"spec": spec}, name, self.name) and chance.random() < DELETED:
            await client.delete(RESOURCECLAIMS, name, self.name)
        pods = await listed(client, PODS, self.name)
        if len(pods) < MOST:
            self._made += 1
            names = [f"claim-{number}" for number in chance.sample(range(CLAIMS), chance.choice((1, 1, 2)))]
            await created(client, PODS, {"spec": pod_spec(names)}, f"pod-{self._made}", self.name)
        if pods and chance.random() < len(pods) / MOST:
            pod = chance.choice(pods)
            await client.delete(PODS, name_of(pod), self.name, uid=uid_of(pod))

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        ledger = Ledger()
        for each in commits:
            yield from ledger.take(each)
            if each.resource == "resourceclaims" and len(_users(each.obj)) > dra_pods.MAX_CONSUMERS:
                yield Broken("a claim has room for so many", f"{each.name} at {each.revision}")
        yield from ledger.at_end()
        for name, pod in ledger.pods.items():
            if terminating(pod):
                yield Broken("converged", f"{name} is still to end")
            elif not runs(pod) and (node := _fitting(ledger, pod)):
                text = f"{name} waits, and fits on {node}: {(pod.get('status') or {}).get('conditions')}"
                yield Broken("converged", text)


def pod_spec(claims: Sequence[str]) -> Object:
    """Return the spec of a pod that uses claims of these names."""
    spec: Object = template({})["spec"]
    spec["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    spec["containers"][0]["resources"]["claims"] = [{"name": name} for name in claims]
    return spec


def _fitting(ledger: Ledger, pod: Any) -> str:
    """Return the pool from which the pod could have all of its claims, empty if there is none."""
    claims = [ledger.claim(name) for name in used_claims(pod)]
    if any(not claim or terminating(claim) or len(_users(claim)) >= dra_pods.MAX_CONSUMERS for claim in claims):
        return ""
    held = {device_of(result) for claim in ledger.claims.values() for result in results_of(claim)}
    missing = sum(_count(claim) for claim in claims if allocation_of(claim) is None)
    pools = {device_of(result).pool for claim in claims for result in results_of(claim)}
    for pool in (f"{Shared.name}-n{node}" for node in range(NODES_COUNT)):
        free = DEVICES - len([device for device in held if device.pool == pool])
        if pools <= {pool} and missing <= free:
            return pool
    return ""


def _users(claim: Any) -> list[Any]:
    return [*consumers(claim)] if claim else []


def _count(claim: Object) -> int:
    return int(claim["spec"]["devices"]["requests"][0]["exactly"]["count"])
