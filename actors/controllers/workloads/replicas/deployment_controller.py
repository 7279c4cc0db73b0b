"""The Deployment controller."""

from collections.abc import Awaitable

from actors.controllers.workloads.common.conditions import put
from actors.controllers.workloads.common.controller import Tools, WorkloadController, adoptable_anew
from actors.controllers.workloads.common.index import OwnerIndex
from actors.controllers.workloads.common.own_writes import OVERDUE_S, OwnWrites
from actors.controllers.workloads.common.pods import ControllerOwner, owner_of, pod_view
from actors.controllers.workloads.common.templates import same_template, template_of
from actors.controllers.workloads.replicas.deployments import DeploymentPlan, ReplicaSetChange, find_new, plan
from actors.controllers.workloads.replicas.progress import create_failed
from actors.controllers.workloads.replicas.replica_sets import replicas_of
from actors.controllers.workloads.replicas.views import REVISION, rollout_of, set_view
from protocols.kinds.table import DEPLOYMENTS, REPLICASETS
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, name_of, namespace_of, uid_of

SCALED = "ScalingReplicaSet"


class DeploymentController(WorkloadController):
    """Reconciles one Deployment at a time by writing its ReplicaSets."""

    kind = "Deployment"
    resource = DEPLOYMENTS

    def __init__(self, tools: Tools, pods: OwnerIndex, sets: OwnerIndex) -> None:
        super().__init__(tools, pods)
        self._sets = sets
        self._writes = OwnWrites(tools.client, REPLICASETS)

    def on_delete(self, obj: Object) -> None:
        super().on_delete(obj)
        self._writes.forget(uid_of(obj))

    def replica_set_changed(self, old: Object | None, new: Object) -> None:
        owners = {owner_of(version) for version in (old, new) if version is not None}
        for owner in owners - {None}:
            if owner is not None and owner.kind == self.kind:
                self.enqueue_owner(owner, new)
        if owner_of(new) is None and adoptable_anew(old, new):
            self.orphan_changed(new)

    def replica_set_gone(self, obj: Object) -> None:
        owner = owner_of(obj)
        if owner is not None and owner.kind == self.kind:
            self.enqueue_owner(owner, obj)

    def pod_of_set_gone(self, owner: ControllerOwner, pod: Object) -> None:
        """A Recreate rollout waits until the last old pod is gone, which no ReplicaSet's status shows."""
        replica_set = self._sets.items.get(f"{namespace_of(pod)}/{owner.name}")
        if replica_set is not None:
            self.replica_set_gone(replica_set)

    async def sync(self, obj: Object) -> None:
        if not (obj.get("spec") or {}).get("selector"):
            text = "This deployment is selecting all deployments. A non-empty selector is required."
            self._tools.recorder.event(obj, "Warning", "SelectingAll", text)
            return
        if not await self._writes.shown(uid_of(obj), self._sets.items):
            self.again(obj, OVERDUE_S)
            return
        sets = [set_view(replica_set) for replica_set in await self.claim_from(obj, self._sets)]
        new = find_new(obj, sets)
        old_pods = [
            pod_view(pod) for replica_set in sets if replica_set is not new for pod in self._pods.owned(replica_set.uid)
        ]
        decided = plan(obj, sets, old_pods, self._tools.clock())
        await self._apply(obj, decided)
        revision = {REVISION: decided.revision} if decided.revision is not None else None
        await self.write_status(obj, decided.status or {}, revision)
        self.again(obj, decided.wait)

    async def _apply(self, obj: Object, decided: DeploymentPlan) -> None:
        for change in decided.changes:
            await self._change(obj, change)
        if decided.create is not None:
            await self._create(obj, decided.create)
        for view in decided.delete:
            await self._tools.client.delete(REPLICASETS, view.name, namespace_of(obj), uid=view.uid)

    async def _change(self, obj: Object, change: ReplicaSetChange) -> None:
        view = change.view
        client = self._tools.client
        await self._send(obj, view.name, client.patch(REPLICASETS, view.name, namespace_of(obj), change.patch()))
        if change.scaled and change.replicas is not None:
            self._scaled(obj, view.name, view.replicas, change.replicas)

    async def _send(self, obj: Object, name: str, write: Awaitable[Object]) -> None:
        """Sizes of all ReplicaSets are decided together, so the next pass waits until the informer shows this one."""
        await self._writes.send(uid_of(obj), f"{namespace_of(obj)}/{name}", write)

    def _scaled(self, obj: Object, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        text = f"Scaled {direction} replica set {name} from {before} to {after}"
        self._tools.recorder.event(obj, "Normal", SCALED, text)

    async def _create(self, obj: Object, replica_set: Object) -> None:
        client, namespace = self._tools.client, namespace_of(obj)
        try:
            await self._send(obj, name_of(replica_set), client.create(REPLICASETS, replica_set, namespace))
        except ApiError as error:
            if error.namespace_ends:
                return
            if error.reason != "AlreadyExists":
                await self._report(obj, name_of(replica_set), error)
                raise
            await self._collided(obj, await client.get(REPLICASETS, name_of(replica_set), namespace))
        else:
            if size := replicas_of(replica_set):
                self._scaled(obj, name_of(replica_set), 0, size)

    async def _collided(self, obj: Object, known: Object) -> None:
        """Choose another name by counting the collision, unless the ReplicaSet is the one that was to be created."""
        owner = owner_of(known)
        if owner is not None and owner.uid == uid_of(obj) and same_template(template_of(known), template_of(obj)):
            return
        count = int((obj.get("status") or {}).get("collisionCount") or 0)
        await self.write_status(obj, {"collisionCount": count + 1})

    async def _report(self, obj: Object, name: str, error: ApiError) -> None:
        failed = create_failed(name, str(error), self._tools.clock())
        self._tools.recorder.event(obj, "Warning", failed["reason"], failed["message"])
        if rollout_of(obj).deadline is not None:
            known = (obj.get("status") or {}).get("conditions") or []
            await self.write_status(obj, {"conditions": put(known, failed)})
