"""Start the controllers of workloads when the first object of their kind appears.

Garbage collection follows the metadata of every kind already, so a kind that nobody uses costs nothing here, not even
its code. Its first object starts the informers that its controller needs; they run until the process ends.
"""

import asyncio
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from actors.controllers.common.informers import FirstObject
from protocols.actor import Context
from protocols.kinds import views
from protocols.kinds.table import DAEMONSETS, DEPLOYMENTS, JOBS, PODS, REPLICASETS, REPLICATIONCONTROLLERS, Resource
from protocols.kube.meta import meta
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import ResourceEventHandler

if TYPE_CHECKING:
    from actors.controllers.workloads.running import RunningControllers

KINDS = (DEPLOYMENTS, REPLICASETS, REPLICATIONCONTROLLERS, DAEMONSETS, JOBS)
JOB_TRACKING = "batch.kubernetes.io/job-tracking"


class Workloads:
    """The controllers of workloads. The attribute `nodes` is the store of the informer of nodes."""

    def __init__(self, client: ApiClient, context: Context) -> None:
        self._client, self._context = client, context
        self._wanted: list[Resource] = []
        self._wake = asyncio.Event()
        self._running: RunningControllers | None = None
        self.nodes: Mapping[str, views.Node] = {}

    def first_object(self, resource: Resource) -> ResourceEventHandler | None:
        """Return the handler that starts the controller of a kind; None for other kinds.

        A pod with a Job's finalizer counts as well: its Job may be gone.
        """
        if resource is PODS:
            return FirstObject(lambda: self._want(JOBS), _has_finalizer)
        return FirstObject(lambda: self._want(resource)) if resource in KINDS else None

    def _want(self, resource: Resource) -> None:
        """A Deployment's ReplicaSets come soon after it."""
        self._wanted += [resource, REPLICASETS] if resource is DEPLOYMENTS else [resource]
        self._wake.set()

    async def run(self) -> None:
        """Start controllers as they are needed. Call it when this process leads and nodes are listed."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._wanted:
                await (await self._loaded()).begin(self._wanted.pop(0))

    async def _loaded(self) -> "RunningControllers":
        if self._running is None:
            module = await asyncio.to_thread(importlib.import_module, "actors.controllers.workloads.running")
            self._running = module.RunningControllers(self._client, self._context, self.nodes)
        return self._running

    # nodes

    def on_add(self, obj: views.Node) -> None:
        self._node_changed(None, obj)

    def on_update(self, old: views.Node, new: views.Node) -> None:
        self._node_changed(old, new)

    def on_delete(self, obj: views.Node) -> None:
        self._node_changed(obj, None)

    def _node_changed(self, old: views.Node | None, new: views.Node | None) -> None:
        if self._running is not None:
            self._running.node_changed(old, new)


def _has_finalizer(pod: views.Pod) -> bool:
    return JOB_TRACKING in (meta(pod).get("finalizers") or ())
