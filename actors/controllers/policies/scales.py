"""Scales of the controllers of pods, as kube-controller-manager's disruption controller finds them."""

from collections.abc import Callable, Iterable

from actors.controllers.policies.disruption import ScaleUnknown
from protocols.kinds import views
from protocols.kinds.table import DEPLOYMENTS, REPLICASETS, REPLICATIONCONTROLLERS, STATEFULSETS, Resource
from protocols.kube.meta import Object, controller_of, name_of, namespace_of, uid_of
from protocols.kubeclient.client import ApiClient, find

PLAIN = (REPLICATIONCONTROLLERS, REPLICASETS, STATEFULSETS)
"""Controllers whose scale is their spec.replicas."""
FindKind = Callable[[str, str], Resource | None]
"""Return the resource of an apiVersion and kind; None if none is served."""


class Scales:
    """Reads of one pass: each controller is asked for once."""

    def __init__(self, client: ApiClient, find: FindKind) -> None:
        self._client, self._find = client, find

    async def total(self, pods: Iterable[Object]) -> tuple[int, list[str]]:
        """Return the sum of the scales of the pods' controllers, and the names of pods without one.

        Raises ScaleUnknown, ApiError, ApiAway.
        """
        scales: dict[str, int] = {}
        owners: dict[str, str] = {}
        unmanaged = []
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                unmanaged.append(name_of(pod))
            elif (uid := str(owner.get("uid"))) not in owners:
                owners[uid], scale = await self._scale(owner, pod)
                scales[owners[uid]] = scale
        return sum(scales.values()), unmanaged

    async def _scale(self, owner: views.OwnerReference, pod: Object) -> tuple[str, int]:
        """Return uid and scale of the controller, or of the Deployment behind a ReplicaSet."""
        resource = self._find(str(owner.get("apiVersion")), str(owner.get("kind")))
        if resource is None:
            raise _no_controllers(pod)
        if resource not in PLAIN:
            return await self._subresource(resource, owner, pod)
        workload = await self._read(resource, str(owner.get("name")), pod)
        if workload is None or uid_of(workload) != owner.get("uid"):
            raise _no_controllers(pod)
        above = controller_of(workload) if resource is REPLICASETS else None
        if above is not None and above.get("kind") == DEPLOYMENTS.kind:
            workload = await self._read(DEPLOYMENTS, str(above.get("name")), pod)
            if workload is None or uid_of(workload) != above.get("uid"):
                raise _no_controllers(pod)
        return uid_of(workload), _replicas(workload)

    async def _subresource(self, resource: Resource, owner: views.OwnerReference, pod: Object) -> tuple[str, int]:
        name = str(owner.get("name"))
        scale = await self._read(resource, f"{name}/scale", pod)
        if scale is None:
            if await self._read(resource, name, pod) is None:
                raise _no_controllers(pod)
            raise ScaleUnknown(f"{resource.full_name} does not implement the scale subresource")
        if uid_of(scale) != owner.get("uid"):
            raise _no_controllers(pod)
        return uid_of(scale), _replicas(scale, missing=0)

    async def _read(self, resource: Resource, name: str, pod: Object) -> Object | None:
        return await find(self._client, resource, name, namespace_of(pod))


def _replicas(obj: Object, missing: int = 1) -> int:
    """Return spec.replicas; `missing` if it is absent, as it is in a Scale of zero replicas."""
    replicas = (obj.get("spec") or {}).get("replicas")
    return replicas if isinstance(replicas, int) else missing


def _no_controllers(pod: Object) -> ScaleUnknown:
    return ScaleUnknown(f'found no controllers for pod "{name_of(pod)}"')
