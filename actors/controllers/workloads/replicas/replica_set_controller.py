"""The controllers of ReplicaSets and of ReplicationControllers, which differ in their selector and status only."""

from collections.abc import Sequence

from actors.controllers.workloads.common.controller import Tools, WorkloadController
from actors.controllers.workloads.common.index import OwnerIndex
from actors.controllers.workloads.common.pod_control import MOST_AT_ONCE
from actors.controllers.workloads.common.pods import PodView, owner_of, pod_view
from actors.controllers.workloads.common.templates import pod_from, template_of
from actors.controllers.workloads.replicas.replica_sets import ReplicaFailure, plan, status, wait
from protocols.kinds.table import REPLICASETS, REPLICATIONCONTROLLERS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, terminating, uid_of
from protocols.kube.pods import is_finished


class ReplicaSetController(WorkloadController):
    """Reconciles one ReplicaSet at a time, MOST_AT_ONCE pods in a pass."""

    kind = "ReplicaSet"
    resource = REPLICASETS

    def __init__(self, tools: Tools, pods: OwnerIndex, sets: OwnerIndex) -> None:
        super().__init__(tools, pods)
        self._sets = sets

    async def sync(self, obj: Object) -> None:
        settled = await self.settled(obj)
        pods = await self.claim_pods(obj)
        fault, error = None, None
        if settled and not terminating(obj):
            fault, error = await self._manage(obj, pods)
        now = self._tools.clock()
        await self.write_status(obj, status(obj, pods, fault, now, observed=settled))
        self.again(obj, wait(obj, pods, now))
        if error is not None:
            raise error

    def adopts(self, owner: Object, pod: Object) -> bool:
        return not is_finished(pod)

    async def _manage(self, obj: Object, pods: Sequence[PodView]) -> tuple[ReplicaFailure | None, Exception | None]:
        """Create and delete pods; an error becomes a condition before it leads to another pass."""
        decided = plan(obj, pods, lambda: self._related(obj, pods), self._tools.clock())
        try:
            template = template_of(obj)
            await self._control.create(obj, [pod_from(obj, template) for _ in range(min(decided.create, MOST_AT_ONCE))])
        except (ApiAway, ApiError) as error:
            return ReplicaFailure("FailedCreate", str(error)), error
        try:
            await self._control.delete(obj, decided.delete[:MOST_AT_ONCE])
        except (ApiAway, ApiError) as error:
            return ReplicaFailure("FailedDelete", str(error)), error
        return None, None

    def _related(self, obj: Object, pods: Sequence[PodView]) -> list[PodView]:
        """Return the pods of all ReplicaSets of the same Deployment."""
        owner = owner_of(obj)
        if owner is None:
            return list(pods)
        return [
            pod_view(pod)
            for replica_set in self._sets.owned(owner.uid)
            for pod in self._pods.owned(uid_of(replica_set))
        ]


class ReplicationControllerController(ReplicaSetController):
    """The same for ReplicationControllers, of which no other sets are related."""

    kind = "ReplicationController"
    resource = REPLICATIONCONTROLLERS

    async def write_status(self, obj: Object, status: Object, annotations: dict[str, str] | None = None) -> Object:
        """Write the status, which does not count pods that are being deleted."""
        rest = {name: value for name, value in status.items() if name != "terminatingReplicas"}
        return await super().write_status(obj, rest, annotations)

    def _related(self, obj: Object, pods: Sequence[PodView]) -> list[PodView]:
        return list(pods)
