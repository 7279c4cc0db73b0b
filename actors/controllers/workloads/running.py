"""The controllers of workloads that were started, the informers that they share, and their metrics."""

import time
from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.controllers.common.informers import LateHandler, without_managed_fields
from actors.controllers.workloads.common.controller import Tools, WorkloadController
from actors.controllers.workloads.common.pods import trim_pod
from actors.controllers.workloads.routing import NEEDS, Router
from protocols.actor import Context
from protocols.actor.metrics import labelled
from protocols.kinds import views
from protocols.kinds.table import PODS, Resource
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder, RecorderOptions
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.kubeclient.part import acting_as
from protocols.process.families import CounterFamily, GaugeFamily

SYNC_S = 3600.0
COMPONENTS = {
    "Deployment": "deployment-controller",
    "ReplicaSet": "replicaset-controller",
    "ReplicationController": "replication-controller",
    "DaemonSet": "daemonset-controller",
    "Job": "job-controller",
}
"""Sources of events, equal to upstream's, and names of the controllers in traces."""

PASSES = CounterFamily("workload_reconciles_total", "Passes of a controller over workloads, by their kind.", ("kind",))
OBJECTS = GaugeFamily(
    "workload_objects",
    "Workloads that a controller follows, by their kind; absent for a kind whose controller has not started.",
    ("kind",),
)
DEPTH = GaugeFamily("workload_queue_depth", "Workloads that wait for a worker, by their kind.", ("kind",))


class RunningControllers:
    """Controllers that were started; imported with the first workload."""

    def __init__(self, client: ApiClient, context: Context, nodes: Mapping[str, views.Node]) -> None:
        self._client, self._context = client, context
        self._router = Router(nodes)
        self._informers: dict[Resource, tuple[Informer, LateHandler]] = {}
        self.node_changed = self._router.node_changed
        context.registry.register(WorkloadMetrics(self._router.controllers))

    async def begin(self, resource: Resource) -> None:
        """Start the controller of a kind after its informers synced: else it would create pods that exist."""
        if resource.kind in self._router.controllers:
            return
        for needed in (PODS, *NEEDS.get(resource, ())):
            await self._informer(needed)[0].wait_synced(SYNC_S)
        recorder = EventRecorder(self._client, RecorderOptions(component=COMPONENTS[resource.kind]))
        tools = Tools(client=self._client, recorder=recorder, log=self._context.log, clock=time.time)
        controller = self._router.add(resource, tools)
        informer, handler = self._informer(resource)
        controller.items = informer.items
        handler.add(controller, list(informer.items.values()))
        await informer.wait_synced(SYNC_S)
        self._router.replay_pods(resource.kind)
        self._context.spawn(recorder.run(), f"{resource.plural} events")
        self._context.spawn(acting_as(COMPONENTS[resource.kind], controller.run), resource.plural)
        self._context.log.info("workload controller started kind=%s", resource.kind)

    def _informer(self, resource: Resource) -> tuple[Informer, LateHandler]:
        if resource not in self._informers:
            index = self._router.index(resource)
            handler = LateHandler(*([index] if index is not None else []))
            options = InformerOptions(keep=trim_pod if resource is PODS else without_managed_fields)
            informer = Informer(self._client, resource, options, handler)
            if index is not None:
                index.items = informer.items
            self._informers[resource] = informer, handler
            self._context.spawn(informer.run(), f"workloads-{resource.plural}")
        return self._informers[resource]


class WorkloadMetrics(Collector):
    """Passes, objects and queued objects of each controller that runs."""

    def __init__(self, controllers: Mapping[str, WorkloadController]) -> None:
        self._controllers = controllers

    def collect(self) -> Iterable[Metric]:
        passes = labelled(PASSES)
        objects = labelled(OBJECTS)
        depth = labelled(DEPTH)
        for kind, controller in self._controllers.items():
            passes.add_metric([kind], controller.passes)
            objects.add_metric([kind], len(controller.items))
            depth.add_metric([kind], len(controller.queue))
        yield from (passes, objects, depth)
