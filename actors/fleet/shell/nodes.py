"""The nodes of the fleet in the API: registration, statuses, leases and the ResourceSlices of their drivers."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from actors.fleet.shell.rejections import reporting
from actors.fleet.simulated.node import Node
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kinds.table import LEASES, NODES, RESOURCESLICES
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, fields_of, labels_of, name_of, uid_of
from protocols.kube.times import now, now_micro, time_or
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler
from protocols.kubeclient.workqueue import Key, WorkQueue
from protocols.lifecycle.node.lease import NAMESPACE, lease_object
from protocols.lifecycle.node.status import heartbeat_patch, node_patch
from protocols.messages.fleet import FLEET

METADATA = ("name", "namespace", "uid", "resourceVersion", "labels")
"""Metadata of a node that is retained."""


WORKERS, LEASE_WORKERS = 16, 16
RENEW_S, JITTER = 10.0, 0.1
SLICE_GRACE_S = 30.0
"""Time from a driver's end to that of its slices."""
REPORT_S = 300.0
"""Time between two heartbeats in the Node object when nothing changes, as kubelet's nodeStatusReportFrequency."""
NODE, SLICES, LEASE, POOLS = "node", "slices", "lease", "pools"
log = logging.getLogger("fleet")


class NodeTaken(NodeplaneError, http=409, grpc="ALREADY_EXISTS"):
    """Raised when the API has a node of a name that the fleet needs, and it is not the fleet's."""


class FleetNodes(ResourceEventHandler):
    """Keeps the Node object, the lease and the slices of every node as they should be."""

    def __init__(
        self,
        client: ApiClient,
        nodes: Mapping[str, Node],
        fleet: str,
        pools: Sequence[Object],
        on_change: Callable[[Node], None],
    ) -> None:
        """`fleet`: its name. `pools`: specs of slices of no single node.

        `on_change` is called with a node that others changed.
        """
        self._pools = pools
        self._client = client
        self._nodes = nodes
        self._fleet = fleet
        self._on_change = on_change
        work = reporting(self._work)
        self._queue = WorkQueue(work, log, WORKERS)
        self._leases = WorkQueue(work, log, LEASE_WORKERS)
        """Apart from the rest, so that nothing keeps a node from its heartbeat."""
        options = InformerOptions(label_selector=f"{FLEET}={fleet}", keep=reduced_node)
        self._informer = Informer(client, NODES, options, self)
        self.registered: set[str] = set()
        """Names of the nodes that have an object and a lease."""
        self._deleted: set[str] = set()
        """Names of nodes whose object was deleted while they were there: one that somebody makes anew reports again."""
        self._earlier = set(nodes)
        """Names of nodes that may have slices of an earlier run beyond those of the profile."""
        self._taken = asyncio.Queue[str]()
        """Names of nodes that are not of this fleet."""
        self.ready = asyncio.Event()
        """Set once all nodes are registered."""
        if not nodes:
            self.ready.set()  # pools alone, beside nodes of others

    async def run(self) -> None:
        """Register all nodes and maintain them. Never returns. Raises NodeTaken."""
        self._queue.put((POOLS, self._fleet), *((NODE, name) for name in self._nodes))
        await asyncio.gather(self._informer.run(), self._queue.run(), self._leases.run(), self._watch_names())

    async def wait_ready(self, seconds: float) -> bool:
        """Return True once all nodes are registered, False if they are not after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.ready.wait()
        except TimeoutError:
            return False
        return True

    def progress(self) -> str:
        """Return how many nodes are registered, and why the API is not followed, if it is not."""
        counts = f"{len(self.registered)} of {len(self._nodes)} nodes registered"
        return f"{counts}: {self._informer.failure}" if self._informer.failure else counts

    @property
    def left_over(self) -> int:
        """Number of nodes of an earlier run that this one does not have, as far as the API has shown them."""
        return len(self._informer.items.keys() - self._nodes.keys())

    async def _watch_names(self) -> None:
        name = await self._taken.get()
        mend = "delete it, or give the group another name in a profile of your own"
        raise NodeTaken(f"node {name} exists and is not of fleet {self._fleet}; {mend}")

    def report(self, node: Node) -> None:
        """Write the node's status soon."""
        self._queue.put((NODE, node.name))

    def publish(self, node: Node) -> None:
        """Make its slices soon what its drivers publish."""
        self._queue.put((SLICES, node.name))

    def resume(self, node: Node) -> None:
        """Let a silent node report again; one that was deleted registers anew."""
        node.silent = False
        self._deleted.discard(node.name)
        if not node.object:
            self.registered.discard(node.name)
        self.report(node)
        self.publish(node)
        self._leases.put((LEASE, node.name))

    # handler of the informer

    def on_add(self, obj: Object) -> None:
        node = self._nodes.get(obj["metadata"]["name"])
        if node is not None and labels_of(obj).get(FLEET) == self._fleet:
            changed = node.shown(cast("views.Node", obj))
            if node.name in self._deleted:
                self.resume(node)
            elif changed:
                self.report(node)
            self._on_change(node)

    def on_delete(self, obj: Object) -> None:
        """The fleet does not register a node again that was deleted, as a kubelet that goes on does not."""
        if (node := self._nodes.get(obj["metadata"]["name"])) is not None:
            if not node.silent:
                self._deleted.add(node.name)
            node.object, node.silent = {}, True

    # work

    async def _work(self, key: Key) -> None:
        kind, name = key
        if kind == POOLS:
            await self._publish_pools()
            await self._delete_lost()
            return
        node = self._nodes[name]
        if node.silent:
            return
        if kind == NODE:
            await self._report(node)
        elif kind == SLICES:
            await self._publish(node)
        else:
            await self._renew(node)

    async def _report(self, node: Node) -> None:
        if node.object:
            await self._update(node)
        else:
            await self._register(node)
        if node.name not in self.registered:
            self._leases.put((LEASE, node.name))
            self._queue.put((SLICES, node.name))
        self._queue.put_later((NODE, node.name), REPORT_S * random.uniform(1, 1 + JITTER))

    async def _register(self, node: Node) -> None:
        """Create the Node object, or take up that of an earlier run."""
        try:
            created = await self._client.create(NODES, node.new_object(now(), {FLEET: self._fleet}))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            created = await self._client.get(NODES, node.name)
            if labels_of(created).get(FLEET) != self._fleet:
                self._taken.put_nowait(node.name)
                return
            await self._update(node)
        else:
            self._earlier.discard(node.name)
        node.shown(cast("views.Node", reduced_node(cast("views.Node", created))))
        self._on_change(node)

    async def _update(self, node: Node) -> None:
        node.devices.expire(time.time())
        before = cast("views.Node", await self._client.get(NODES, node.name)).get("status") or {}
        status = node.status(before, now())
        body = node_patch(before, status) or (heartbeat_patch(status, now()) if _is_old(before) else None)
        if body is not None:
            await self._client.patch(NODES, node.name, "", body, kind="strategic", subresource="status")

    async def _renew(self, node: Node) -> None:
        if not node.object:
            return
        lease = lease_object(node.name, uid_of(node.object), now_micro())
        try:
            if node.name in self.registered:
                await self._client.patch(LEASES, node.name, NAMESPACE, {"spec": lease["spec"]})
            else:
                await self._client.create(LEASES, lease, NAMESPACE)
        except ApiError as error:
            if error.code == 404 and node.name in self.registered:
                self.registered.discard(node.name)  # it was deleted
            elif error.reason == "AlreadyExists":
                self.registered.add(node.name)  # it is from an earlier run
            else:
                raise
            self._leases.put((LEASE, node.name))
            return
        self.registered.add(node.name)
        if len(self.registered) == len(self._nodes):
            self.ready.set()
        self._leases.put_later((LEASE, node.name), RENEW_S * random.uniform(1 - JITTER, 1))

    async def _publish(self, node: Node) -> None:
        """Make the slices of the node what its drivers publish now."""
        if node.name in self._earlier:
            await self._delete_surplus(node)
            self._earlier.discard(node.name)
        for obj in node.slices({FLEET: self._fleet}):
            await self._put(node, obj)
        now, due = time.time(), []
        for driver, names in node.gone_drivers():
            left = driver.gone_ns / 1e9 + SLICE_GRACE_S - now
            if driver.gone_ns and left > 0:
                due.append(left)
            elif driver.gone_ns:
                await asyncio.gather(*map(self._delete_slice, names))
                driver.gone_ns = 0
        if due:
            self._queue.put_later((SLICES, node.name), min(due))

    async def _publish_pools(self) -> None:
        """Publish the pools of the profile, in a new generation where an earlier run published others."""
        begin = f"{self._fleet}-pools-"
        mine = f"{FLEET}={self._fleet}"
        found = await self._client.list(RESOURCESLICES, label_selector=mine, field_selector="spec.nodeName=")
        there = {name_of(obj): obj for obj in found.get("items") or () if name_of(obj).startswith(begin)}
        newest = max((obj["spec"]["pool"]["generation"] for obj in there.values()), default=0)
        if {name: obj["spec"] for name, obj in there.items()} == self._pool_specs(begin, newest):
            return
        specs = self._pool_specs(begin, newest + 1)
        for name, spec in specs.items():
            if name in there and _is_other_pool(there[name]["spec"], spec):
                await self._delete_slice(name)
                del there[name]
            metadata = {"name": name, "labels": {FLEET: self._fleet}}
            obj = {**RESOURCESLICES.type_meta, **there.get(name, {"metadata": metadata}), "spec": spec}
            await (self._client.update if name in there else self._client.create)(RESOURCESLICES, obj)
        await asyncio.gather(*map(self._delete_slice, there.keys() - specs.keys()))

    def _pool_specs(self, begin: str, generation: int) -> dict[str, Object]:
        """Return the specs of the pools' slices by name."""
        return {
            f"{begin}{number}": {**spec, "pool": {**spec["pool"], "generation": generation}}
            for number, spec in enumerate(self._pools)
        }

    async def _delete_lost(self) -> None:
        """Delete the slices of drivers that the profile of an earlier run had, and this one has not."""
        drivers = {str(spec["driver"]) for spec in self._pools}
        drivers.update(driver for node in self._nodes.values() for driver in node.devices.drivers)
        others = ",".join(f"spec.driver!={driver}" for driver in sorted(drivers))
        mine = f"{FLEET}={self._fleet}"
        lost = await self._client.list(RESOURCESLICES, field_selector=others, label_selector=mine)
        for obj in lost.get("items") or ():  # in turn: there may be one for each node
            await self._delete_slice(name_of(obj))

    async def _delete_surplus(self, node: Node) -> None:
        """Delete the slices that drivers of an earlier run published beyond those of the profile."""
        for driver in node.template.drivers:
            number = len(driver.slices)
            while await self._delete_slice(node.slice_name(driver, number)):
                number += 1

    async def _create(self, obj: dict[str, Any]) -> bool:
        """Return False if there is a slice of this name."""
        try:
            await self._client.create(RESOURCESLICES, obj)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    async def _put(self, node: Node, obj: dict[str, Any]) -> None:
        if await self._create(obj):
            return
        name, spec = obj["metadata"]["name"], obj["spec"]
        existing = await self._client.get(RESOURCESLICES, name)
        stored, owners = existing["spec"], obj["metadata"]["ownerReferences"]
        if _is_other_pool(stored, spec):
            await self._delete_slice(name)
            await self._create(obj)
            return
        driver = node.devices.drivers[spec["driver"]]
        there, wanted = int(stored["pool"]["generation"]), {**spec["pool"], "generation": stored["pool"]["generation"]}
        differs = stored != {**spec, "pool": wanted}
        if there > driver.generation or (there == driver.generation and differs):
            driver.generation = there + differs  # an earlier run published more, and devices change with a generation
            self.publish(node)
        elif there < driver.generation or existing["metadata"].get("ownerReferences") != owners:
            await self._client.patch(RESOURCESLICES, name, "", {"metadata": {"ownerReferences": owners}, "spec": spec})

    async def _delete_slice(self, name: str) -> bool:
        """Return False if there is no slice of this name."""
        try:
            await self._client.delete(RESOURCESLICES, name)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True


def _is_other_pool(stored: Object, spec: Object) -> bool:
    """Return True if a slice that is to have this spec must be made anew: its driver and pool cannot change."""
    return (stored["driver"], stored["pool"]["name"]) != (spec["driver"], spec["pool"]["name"])


def _is_old(status: views.NodeStatus) -> bool:
    """Return True if the last heartbeat in the conditions is due again."""
    beats = [time_or(condition.get("lastHeartbeatTime")) for condition in status.get("conditions") or ()]
    return time.time() - min(beats, default=0.0) >= REPORT_S


def reduced_node(node: views.Node) -> Object:
    """Reduce a node to what `Node.shown` and the admission of pods read."""
    return {
        "metadata": fields_of(node.get("metadata") or {}, METADATA),
        "spec": {"taints": (node.get("spec") or {}).get("taints") or []},
        "status": fields_of(node.get("status") or {}, ("capacity", "allocatable")),
    }
