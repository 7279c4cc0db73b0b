"""Deployments whose template changes: no larger surge than is allowed, never too few pods, one template at the end."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocols.kinds.table import DEPLOYMENTS
from protocols.kube.meta import Object, labels_of, uid_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import (
    Written,
    created,
    is_ready,
    latest,
    lives,
    make_namespace,
    template,
    user,
)

PAUSE_S = 2.5
REPLICAS = 3
IMAGES = 3
HISTORY = 1


class _Shape(NamedTuple):
    surge: int
    unavailable: int


SHAPES = {"more": _Shape(1, 0), "fewer": _Shape(0, 1)}


class Rollouts:
    name = "rollouts"

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {self.name: user(options, self._step, PAUSE_S)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        app, image = chance.choice(list(SHAPES)), f"i{chance.randrange(IMAGES)}"
        if not await created(client, DEPLOYMENTS, {"spec": _spec(app, image)}, app, self.name):
            body = {"spec": {"template": template({"app": app}, image)}}
            await client.patch(DEPLOYMENTS, app, self.name, body)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        for app, shape in SHAPES.items():
            ours = [each for each in commits if labels_of(each.last).get("app") == app]
            yield from _pods(app, shape, ours)
            yield from _sets(app, shape, ours)
            if deployment := latest(commits, "deployments").get(app):
                yield from _at_end(deployment, ours)


def _spec(app: str, image: str) -> Object:
    shape, labels = SHAPES[app], {"app": app}
    limits = {"maxSurge": shape.surge, "maxUnavailable": shape.unavailable}
    return {
        "replicas": REPLICAS,
        "revisionHistoryLimit": HISTORY,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": limits},
        "selector": {"matchLabels": labels},
        "template": template(labels, image),
    }


def _pods(app: str, shape: _Shape, commits: Sequence[Written]) -> Iterator[Broken]:
    """Once all were available, enough of them are."""
    ready: set[str] = set()
    least = 0
    for each in commits:
        if each.resource != "pods":
            continue
        (ready.add if is_ready(each.obj) else ready.discard)(each.name)
        if len(ready) >= REPLICAS:
            least = REPLICAS - shape.unavailable
        if len(ready) < least:
            text = f"{app} at {each.revision}: {len(ready)} of {least} are available"
            yield Broken("a rollout leaves enough available", text)


def _sets(app: str, shape: _Shape, commits: Sequence[Written]) -> Iterator[Broken]:
    """Neither do the replica sets ask for more than the surge allows, nor are there more pods."""
    most = REPLICAS + shape.surge
    asked: dict[str, int] = {}
    living: set[str] = set()
    for each in commits:
        if each.resource == "replicasets":
            asked[uid_of(each.last)] = each.obj["spec"]["replicas"] if each.obj else 0
        elif each.resource == "pods":
            (living.add if lives(each.obj) else living.discard)(each.name)
        if sum(asked.values()) > most or len(living) > most:
            text = f"{app} at {each.revision}: {len(living)} pods of {sorted(asked.values())}, at most {most}"
            yield Broken("a rollout surges no further than it may", text)


def _at_end(deployment: Object, commits: Sequence[Written]) -> Iterator[Broken]:
    app, image = deployment["metadata"]["name"], _image(deployment)
    pods, sets = latest(commits, "pods").values(), latest(commits, "replicasets").values()
    images = sorted(_image({"spec": {"template": pod}}) for pod in pods)
    if images != [image] * REPLICAS or not all(map(is_ready, pods)):
        yield Broken("converged", f"{app} is to run {image}, its pods run {images}: {deployment.get('status')}")
    asked = sorted((_image(each), each["spec"]["replicas"]) for each in sets if each["spec"]["replicas"])
    if asked != [(image, REPLICAS)] or len(sets) > HISTORY + 1:
        yield Broken("converged", f"{app} is to run {image}, {len(sets)} replica sets ask for {asked}")
    if (deployment.get("status") or {}).get("updatedReplicas") != REPLICAS:
        yield Broken("converged", f"{app}: {deployment.get('status')}")


def _image(owner: Object) -> str:
    return str(owner["spec"]["template"]["spec"]["containers"][0]["image"])
