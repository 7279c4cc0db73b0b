"""Namespaces that end while others create objects in them: nothing is left in one that is gone, nor created after."""

import random
from collections.abc import Iterator, Sequence

from protocols.kinds.table import CONFIGMAPS, NAMESPACES, SECRETS
from protocols.kube.meta import terminating
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, created, latest, left_behind, together, user

PAUSE_S, OWNER_PAUSE_S = 0.1, 1.0
SPACES, KEYS = 2, 60
TOGETHER = 4
"""Creations at once."""


class Spaces:
    name = "space-"
    """With which the names of its namespaces begin."""

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {"spaces": user(options, self._own, OWNER_PAUSE_S), "settler": user(options, self._settle, PAUSE_S)}

    async def _own(self, client: ApiClient, chance: random.Random) -> None:
        name = f"{self.name}{chance.randrange(SPACES)}"
        if not await created(client, NAMESPACES, {}, name):
            await client.delete(NAMESPACES, name)

    async def _settle(self, client: ApiClient, chance: random.Random) -> None:
        resource, space = chance.choice((CONFIGMAPS, SECRETS)), f"{self.name}{chance.randrange(SPACES)}"
        names = [f"o{number}" for number in chance.sample(range(KEYS), TOGETHER)]
        await together(created(client, resource, {}, name, space) for name in names)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        for text in left_behind(commits, "namespaces", lambda each: each.namespace):
            yield Broken("a namespace that is gone is empty", text)
        for name, namespace in latest(commits, "namespaces").items():
            if terminating(namespace):
                yield Broken("converged", f"{name} is still to end: {namespace.get('status')}")
