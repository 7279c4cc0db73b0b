"""Evictions through a disruption budget: two users evict, and never are fewer pods healthy than it asks for."""

import random
from collections.abc import Iterator, Sequence

from protocols.kinds.table import PODDISRUPTIONBUDGETS, PODS, REPLICASETS
from protocols.kube.meta import Object, name_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import (
    Written,
    created,
    is_ready,
    latest,
    make_namespace,
    pods_of,
    template,
    together,
    user,
)

PAUSE_S = 0.5
REPLICAS, HEALTHY = 4, 2
APP = "web"
TOGETHER = 2
"""Evictions at once."""


class Evictions:
    name = "evictions"

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {f"evictor-{number}": user(options, self._step, PAUSE_S) for number in range(2)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        labels = {"matchLabels": {"app": APP}}
        if await created(
            client, PODDISRUPTIONBUDGETS, {"spec": {"minAvailable": HEALTHY, "selector": labels}}, APP, self.name
        ):
            spec = {"replicas": REPLICAS, "selector": labels, "template": template({"app": APP})}
            await created(client, REPLICASETS, {"spec": spec}, APP, self.name)
        pods = await pods_of(client, self.name, APP)
        names = [name_of(pod) for pod in chance.sample(pods, min(TOGETHER, len(pods)))]
        bodies = [{"metadata": {"name": name, "namespace": self.name}} for name in names]
        await together(client.create(PODS, body, self.name, "eviction") for body in bodies)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        ready: set[str] = set()
        for each in commits:
            if each.resource != "pods":
                continue
            evicted = each.name in ready and not is_ready(each.obj)
            (ready.add if is_ready(each.obj) else ready.discard)(each.name)
            if evicted and len(ready) < HEALTHY:
                text = f"{each.name} at {each.revision} leaves {len(ready)} of {HEALTHY}"
                yield Broken("a budget is not overdrawn", text)
        yield from _at_end(latest(commits, "poddisruptionbudgets"), latest(commits, "pods"))


def _at_end(budgets: dict[str, Object], pods: dict[str, Object]) -> Iterator[Broken]:
    for name, budget in budgets.items():
        status = budget.get("status") or {}
        healthy = sum(is_ready(pod) and name not in (status.get("disruptedPods") or {}) for name, pod in pods.items())
        if status.get("currentHealthy") != healthy or status.get("expectedPods") != len(pods):
            yield Broken("converged", f"budget {name} has {status}, {healthy} of {len(pods)} pods are healthy")
