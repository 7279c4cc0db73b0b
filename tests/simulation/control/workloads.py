"""A load for controllers and scheduler: replica sets that grow, shrink and go, on nodes that a stand-in serves.

The stand-in does what a node's pod worker does as far as the control plane can see: it renews leases, reports pods that
are bound as running, and removes those that are to end. What must be true at the end is checked by `broken`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from protocols.kinds.table import LEASES, NODES, PODS, REPLICASETS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, labels_of
from protocols.kube.times import now, now_micro
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.simulation.control.clients import Silent
from tests.simulation.model import Broken, Main
from tests.simulation.world.process import Process

NAMESPACE = "default"
NODES_COUNT, PODS_PER_NODE = 2, 4
SETS = 3
MOST_REPLICAS = 4
PAUSE_S, RETRY_S = 2.0, 0.1
LEASE_S = 3.0
"""Seconds between two renewals of a node's lease."""
ENDS, END_SHARE, FAIL_SHARE = "ends", 0.4, 0.15
"""The label of pods that end; the share of those that run which end at each turn, and the share of these that fail."""
ENDED = ("Succeeded", "Failed")
Step = Callable[[ApiClient, random.Random], Awaitable[object]]


def user(options: ClientOptions, step: Step, pause_s: float, retry_s: float) -> Main:
    """Return the main of a client that makes a step every `pause_s` on average, whatever became of the one before.

    After an error of the API it waits `retry_s` more.
    """

    async def main(process: Process) -> None:
        client = ApiClient(options)
        await client.start()
        chance = process.world.random(f"load/{process.name}")
        while True:
            try:
                await step(client, chance)
            except (ApiError, ApiAway):
                await asyncio.sleep(retry_s)
            await asyncio.sleep(chance.expovariate(1 / pause_s))

    return main


def owner(options: ClientOptions) -> Main:
    """Return the main of a client that changes replica sets at random."""
    return user(options, _change, PAUSE_S, RETRY_S)


async def _change(client: ApiClient, chance: random.Random) -> None:
    name = f"set-{chance.randrange(SETS)}"
    replicas, remove = chance.randint(0, MOST_REPLICAS), chance.random() < 0.2
    try:
        held = await client.get(REPLICASETS, name, NAMESPACE)
    except ApiError as error:
        if error.code != 404:
            raise
        await client.create(REPLICASETS, _replica_set(name, replicas), NAMESPACE)
        return
    if remove:
        await client.delete(REPLICASETS, name, NAMESPACE, policy="Background")
    else:
        held["spec"]["replicas"] = replicas
        await client.update(REPLICASETS, held, NAMESPACE)


def _replica_set(name: str, replicas: int) -> Object:
    labels = {"set": name}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def nodes(options: ClientOptions, pods_per_node: int = PODS_PER_NODE) -> Main:
    """Return the main of the stand-in for all nodes."""

    async def main(process: Process) -> None:
        await _Nodes(process, options, pods_per_node).run()

    return main


class _Nodes:
    def __init__(self, process: Process, options: ClientOptions, pods_per_node: int) -> None:
        self._client, self._pods_per_node = ApiClient(options), pods_per_node
        self._chance = process.world.random("load/ends")
        self._pods = process.notes["pods"] = Informer(self._client, PODS, InformerOptions(), Silent())

    async def run(self) -> None:
        await self._client.start()
        loop = asyncio.get_running_loop()
        informing = loop.create_task(self._pods.run())
        renewed = 0.0
        while not informing.done():
            try:
                if loop.time() - renewed > LEASE_S:
                    await self._renew()
                    renewed = loop.time()
                for pod in list(self._pods.items.values()):
                    await self._serve(pod)
            except (ApiError, ApiAway):
                pass
            await asyncio.sleep(0.5)
        await informing

    async def _renew(self) -> None:
        for number in range(NODES_COUNT):
            name = f"n{number}"
            await self._register(name)
            metadata = {"name": name, "namespace": "kube-node-lease"}
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now_micro()}
            try:
                await self._client.patch(LEASES, name, "kube-node-lease", {"spec": spec})
            except ApiError as error:
                if error.code != 404:
                    raise
                lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
                await self._client.create(LEASES, lease, "kube-node-lease")

    async def _register(self, name: str) -> None:
        room = {"cpu": "4", "memory": "4Gi", "pods": str(self._pods_per_node)}
        ready = {"type": "Ready", "status": "True", "reason": "Up", "lastHeartbeatTime": now()}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        try:
            await self._client.patch(NODES, name, "", {"status": status}, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
            await self._client.create(NODES, node)

    async def _serve(self, pod: Object) -> None:
        metadata, name, phase = pod["metadata"], pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        ends = ENDS in labels_of(pod) and phase not in ENDED
        if not pod["spec"].get("nodeName"):
            return
        if metadata.get("deletionTimestamp"):
            if ends:
                await self._report(pod, "Failed")
            await self._client.delete(PODS, name, metadata["namespace"], grace=0, uid=metadata["uid"])
        elif phase not in ("Running", *ENDED):
            await self._report(pod, "Running")
        elif ends and self._chance.random() < END_SHARE:
            await self._report(pod, "Failed" if self._chance.random() < FAIL_SHARE else "Succeeded")

    async def _report(self, pod: Object, phase: str) -> None:
        """Write the status; one that ends is known by its version, since no pod leaves the phase in which it ended."""
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        where = PODS, pod["metadata"]["name"], pod["metadata"]["namespace"]
        body: Object = {"status": {"phase": phase, "conditions": [ready]}}
        if ENDS in labels_of(pod):
            body["metadata"] = {"resourceVersion": pod["metadata"]["resourceVersion"]}
        await self._client.patch(*where, body, subresource="status")


def broken(stored: dict[str, dict[str, Any]]) -> Iterator[Broken]:
    """Check the stored objects, by resource and key, at the end."""
    sets, pods = stored.get("replicasets", {}), stored.get("pods", {})
    owned: Counter[str] = Counter()
    bound: Counter[str] = Counter()
    for key, pod in pods.items():
        references = pod["metadata"].get("ownerReferences") or []
        uid = references[0]["uid"] if references else ""
        if uid not in {each["metadata"]["uid"] for each in sets.values()}:
            yield Broken("garbage is collected", f"pod {key} has an owner that is gone")
        owned[uid] += 1
        bound[pod["spec"].get("nodeName", "")] += 1
    for key, each in sets.items():
        found, wanted = owned[each["metadata"]["uid"]], each["spec"]["replicas"]
        if found != wanted:
            yield Broken("replicas are exact", f"{key} has {found} pods of {wanted}")
    for node, count in bound.items():
        if node and count > PODS_PER_NODE:
            yield Broken("no node has too many pods", f"{node} has {count} pods, room for {PODS_PER_NODE}")
    free = NODES_COUNT * PODS_PER_NODE - sum(count for node, count in bound.items() if node)
    if bound[""] and free > 0:
        yield Broken("what fits is bound", f"{bound['']} pods wait, {free} fit")
