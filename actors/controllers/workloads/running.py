"""The controllers of workloads that were started, the informers that they share, and their metrics."""

import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.controllers.common.informers import LateHandler, without_managed_fields
from actors.controllers.workloads.common.controller import Tools, WorkloadController, adoptable_anew
from actors.controllers.workloads.common.index import OwnerIndex
from actors.controllers.workloads.common.pods import ControllerOwner, owner_of, trim_pod
from actors.controllers.workloads.daemons.controller import DaemonSetController
from actors.controllers.workloads.jobs.controller import JobController
from actors.controllers.workloads.replicas.deployment_controller import DeploymentController
from actors.controllers.workloads.replicas.replica_set_controller import (
    ReplicaSetController,
    ReplicationControllerController,
)
from protocols.actor import Context
from protocols.actor.metrics import labelled
from protocols.kinds import views
from protocols.kinds.table import (
    CONTROLLERREVISIONS,
    DAEMONSETS,
    DEPLOYMENTS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    Resource,
)
from protocols.kube.meta import Object
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

    def describe(self) -> Iterable[Metric]:
        return []


NEEDS = {DEPLOYMENTS: (REPLICASETS,), DAEMONSETS: (CONTROLLERREVISIONS,)}
"""Kinds that a kind's controller reads besides its own and pods."""


class Router:
    """The indexes that controllers share, and the controllers that run. Informers are the caller's."""

    def __init__(self, nodes: Mapping[str, views.Node]) -> None:
        """`nodes` is the store of an informer."""
        self.pods = OwnerIndex(self._pod_changed, self._pod_gone)
        self.sets = OwnerIndex(self._set_changed, self._set_gone)
        self.revisions = OwnerIndex(self._revision_changed, lambda revision: None)
        self.controllers: dict[str, WorkloadController] = {}
        """By kind."""
        self._nodes = nodes

    def add(self, resource: Resource, tools: Tools) -> WorkloadController:
        """Make the controller of a kind; its `items` are set by the caller."""
        controller: WorkloadController
        if resource is DEPLOYMENTS:
            controller = DeploymentController(tools, self.pods, self.sets)
        elif resource is REPLICASETS:
            controller = ReplicaSetController(tools, self.pods, self.sets)
        elif resource is REPLICATIONCONTROLLERS:
            controller = ReplicationControllerController(tools, self.pods, self.sets)
        elif resource is DAEMONSETS:
            controller = DaemonSetController(tools, self.pods, self.revisions, self._nodes)
        else:
            controller = JobController(tools, self.pods)
        self.controllers[resource.kind] = controller
        return controller

    def index(self, resource: Resource) -> OwnerIndex | None:
        return {PODS: self.pods, REPLICASETS: self.sets, CONTROLLERREVISIONS: self.revisions}.get(resource)

    def replay_pods(self, kind: str) -> None:
        """Pass all pods of owners of a kind, and those without one, to a controller made after they were listed."""
        for pod in self.pods.items.values():
            owner = owner_of(pod)
            if owner is None or owner.kind == kind:
                self._pod_changed(None, pod)

    def node_changed(self, old: views.Node | None, new: views.Node | None) -> None:
        controller = self.controllers.get(DAEMONSETS.kind)
        if isinstance(controller, DaemonSetController):
            controller.node_changed(old, new)

    def _pod_changed(self, old: Object | None, pod: Object) -> None:
        owner, before = owner_of(pod), owner_of(old) if old is not None else None
        if before is not None and before != owner:
            self._of(before, lambda controller: controller.enqueue_owner(before, pod))
        if owner is not None:
            self._of(owner, lambda controller: controller.pod_changed(owner, pod))
        elif adoptable_anew(old, pod):
            for controller in self.controllers.values():
                if not isinstance(controller, DeploymentController):
                    controller.orphan_changed(pod)

    def _pod_gone(self, pod: Object) -> None:
        owner = owner_of(pod)
        if owner is None:
            return
        self._of(owner, lambda controller: controller.pod_gone(owner, pod))
        deployments = self._deployments()
        if owner.kind == REPLICASETS.kind and deployments is not None:
            deployments.pod_of_set_gone(owner, pod)

    def _of(self, owner: ControllerOwner, act: Callable[[WorkloadController], object]) -> None:
        if (controller := self.controllers.get(owner.kind)) is not None:
            act(controller)

    def _set_changed(self, old: Object | None, new: Object) -> None:
        if (controller := self._deployments()) is not None:
            controller.replica_set_changed(old, new)

    def _set_gone(self, obj: Object) -> None:
        if (controller := self._deployments()) is not None:
            controller.replica_set_gone(obj)

    def _deployments(self) -> DeploymentController | None:
        controller = self.controllers.get(DEPLOYMENTS.kind)
        return controller if isinstance(controller, DeploymentController) else None

    def _revision_changed(self, old: Object | None, new: Object) -> None:
        owner, controller = owner_of(new), self.controllers.get(DAEMONSETS.kind)
        if owner is not None and owner.kind == DAEMONSETS.kind and controller is not None:
            controller.enqueue_owner(owner, new)
