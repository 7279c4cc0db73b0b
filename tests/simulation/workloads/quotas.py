"""Two users below one quota: never is there more than it allows, and in the end it shows what there is."""

import random
from collections.abc import Iterator, Sequence

from protocols.kinds.table import CONFIGMAPS, PODS, RESOURCEQUOTAS
from protocols.kube.meta import name_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import (
    Written,
    created,
    latest,
    listed,
    lives,
    make_namespace,
    template,
    together,
    user,
)

PAUSE_S = 0.4
HARD = {"count/configmaps": 6, "pods": 4}
QUOTA = "all"
KEYS = 6
DELETED, TOGETHER = 0.6, 3
"""The share of steps that delete an object, and how many the others create at once."""


class Quotas:
    name = "quotas"

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {f"tenant-{number}": user(options, self._step, PAUSE_S) for number in range(2)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        hard = {name: str(count) for name, count in HARD.items()}
        if await created(client, RESOURCEQUOTAS, {"spec": {"hard": hard}}, QUOTA, self.name):
            return
        if not (await client.get(RESOURCEQUOTAS, QUOTA, self.name)).get("status"):
            return  # as upstream, it limits nothing before its controller has counted
        resource, obj = chance.choice(((CONFIGMAPS, {}), (PODS, {"spec": template({})["spec"]})))
        if chance.random() < DELETED and (held := await listed(client, resource, self.name)):
            await client.delete(resource, name_of(chance.choice(held)), self.name)
        else:
            names = [f"{resource.plural}-{number}" for number in chance.sample(range(KEYS), TOGETHER)]
            await together(created(client, resource, obj, name, self.name) for name in names)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        there: dict[str, set[str]] = {name: set() for name in HARD}
        for each in commits:
            name = "pods" if each.resource == "pods" else f"count/{each.resource}"
            if name not in HARD:
                continue
            is_there = lives(each.obj) if name == "pods" else each.obj is not None
            (there[name].add if is_there else there[name].discard)(each.name)
            if is_there and len(there[name]) > HARD[name]:
                text = f"{len(there[name])} of {HARD[name]} {name} at {each.revision}"
                yield Broken("a quota is not exceeded", text)
        for quota in latest(commits, "resourcequotas").values():
            used = (quota.get("status") or {}).get("used") or {}
            for name, objects in there.items():
                if used.get(name) != str(len(objects)):
                    yield Broken("a quota is exact", f"{name}: {used.get(name)} used, {len(objects)} are there")
