"""A custom resource whose definition goes, comes back and stores another version, while others write its objects."""

import random
from collections.abc import Iterator, Sequence

from protocols.kinds.table import DEFINITIONS, Resource
from protocols.kube.custom import condition
from protocols.kube.meta import Object, key_of, meta, terminating, version_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.simulation.control.clients import Silent
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, created, latest, left_behind, make_namespace, user
from tests.simulation.world.process import Process

GROUP, PLURAL, SPACE = "sim.example.com", "things", "things"
DEFINITION = f"{PLURAL}.{GROUP}"
VERSIONS = "v1", "v2"
KINDS = {version: Resource(GROUP, version, PLURAL, "Thing", True, f"{GROUP}/{PLURAL}") for version in VERSIONS}
OBJECTS, STORED = f"{GROUP}/{PLURAL}", DEFINITIONS.etcd_prefix
"""What their commits are of."""
PAUSE_S, OWNER_PAUSE_S = 0.15, 1.0
KEYS = 20
DELETED, MOVED = 0.25, 0.4
"""Shares of the steps of a definition's owner that delete it, and that store another version."""


class Definitions:
    name = PLURAL
    """With which the names of its definition and namespace begin."""

    def __init__(self) -> None:
        self._informers: dict[str, Informer] = {}
        """Of the last incarnation of each viewer, by version."""

    def users(self, options: ClientOptions) -> dict[str, Main]:
        own, write = user(options, self._own, OWNER_PAUSE_S), user(options, self._write, PAUSE_S)
        return {"definer": own, "thinger-0": write, "thinger-1": write}

    def viewers(self, options: ClientOptions) -> dict[str, Main]:
        return {f"viewer-{version}": self._viewer(options, version) for version in VERSIONS}

    def _viewer(self, options: ClientOptions, version: str) -> Main:
        async def main(process: Process) -> None:
            client = ApiClient(options)
            await client.start()
            self._informers[version] = Informer(client, KINDS[version], InformerOptions(), Silent())
            await self._informers[version].run()

        return main

    async def _own(self, client: ApiClient, chance: random.Random) -> None:
        if await created(client, DEFINITIONS, {"spec": _spec(VERSIONS[0])}, DEFINITION):
            return
        kind = chance.random()
        if kind < DELETED:
            await client.delete(DEFINITIONS, DEFINITION)
        elif kind < DELETED + MOVED:
            held = await client.get(DEFINITIONS, DEFINITION)
            await client.update(DEFINITIONS, {**held, "spec": _spec(chance.choice(VERSIONS))})

    async def _write(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, SPACE)
        kind, name = KINDS[chance.choice(VERSIONS)], f"o{chance.randrange(KEYS)}"
        if await created(client, kind, {"spec": {}}, name, SPACE):
            return
        if chance.random() < 0.5:
            await client.delete(kind, name, SPACE)
        else:
            held = await client.get(kind, name, SPACE)
            await client.update(kind, {**held, "spec": {"number": chance.randrange(1000)}}, SPACE)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        ours = [each for each in commits if each.resource in (OBJECTS, STORED)]
        for text in left_behind(ours, STORED, lambda each: DEFINITION):
            yield Broken("nothing is left of a custom resource", text)
        definition = latest(commits, STORED).get(DEFINITION)
        if definition is None:
            return
        if terminating(definition) or condition(definition, "Established") != "True":
            yield Broken("converged", f"{DEFINITION}: {meta(definition)} {definition.get('status')}")
        else:
            yield from self._viewed(commits)

    def _viewed(self, commits: Sequence[Written]) -> Iterator[Broken]:
        """Informers of each version hold what is stored, whatever version that is."""
        last = {f"{SPACE}/{each.name}": each for each in commits if each.resource == OBJECTS}
        wanted = {key: str(each.revision) for key, each in last.items() if each.obj is not None}
        for version, informer in self._informers.items():
            held = {key: version_of(obj) for key, obj in informer.items.items()}
            if held != wanted:
                differ = sorted(key for key in {**held, **wanted} if held.get(key) != wanted.get(key))
                text = f"{version}: {len(held)} of {len(wanted)}, {differ[:3]} differ; {informer.failure}"
                yield Broken("converged", text)
            other = [key_of(obj) for obj in informer.items.values() if obj.get("apiVersion") != f"{GROUP}/{version}"]
            if other:
                yield Broken("an object has the version that is asked for", f"{version}: {other[:3]}")


def _spec(storing: str) -> Object:
    spec = {"type": "object", "properties": {"number": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    versions = [{"name": each, "served": True, "storage": each == storing, "schema": schema} for each in VERSIONS]
    names = {"plural": PLURAL, "kind": "Thing"}
    return {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions}
