"""Events of pods, ReplicaSets, revisions and nodes, passed to the controllers that they concern."""

from collections.abc import Callable, Mapping

from actors.controllers.workloads.common.controller import Tools, WorkloadController, adoptable_anew
from actors.controllers.workloads.common.index import OwnerIndex
from actors.controllers.workloads.common.pods import ControllerOwner, owner_of
from actors.controllers.workloads.daemons.controller import DaemonSetController
from actors.controllers.workloads.jobs.controller import JobController
from actors.controllers.workloads.replicas.deployment_controller import DeploymentController
from actors.controllers.workloads.replicas.replica_set_controller import (
    ReplicaSetController,
    ReplicationControllerController,
)
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
