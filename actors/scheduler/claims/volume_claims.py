"""PersistentVolumeClaims, as far as one keeps a pod from every node: what upstream's VolumeBinding checks first.

They and their classes are followed from the first pod on that has one; until then they cost nothing. Nodes are not
filtered by volumes, and claims of a class that binds late (WaitForFirstConsumer) do not hold a pod up: nothing here
binds or provisions volumes.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from actors.scheduler.model.errors import ObjectUnreadable, VolumesNotReady
from protocols.dra.pods import is_owned_by
from protocols.kinds import views
from protocols.kinds.table import PERSISTENTVOLUMECLAIMS, STORAGECLASSES
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import (
    Object,
    annotations_of,
    fields_of,
    join_key,
    key_of,
    meta,
    name_of,
    namespace_of,
    terminating,
)
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler

BOUND = "pv.kubernetes.io/bind-completed"
CLASS = "volume.beta.kubernetes.io/storage-class"
"""The annotation that was there before spec.storageClassName; it wins."""
VOLUMES = "volumes"
"""Topic: claims are known now, or a class appeared or changed."""
Spawn = Callable[[Coroutine[Any, Any, None], str], object]


def _volume_topic(key: str) -> str:
    return f"volume claim {key}"


class VolumeClaims(ResourceEventHandler):
    """Follows volume claims from the first pod that has one."""

    def __init__(self, client: ApiClient, spawn: Spawn, changed: Callable[[str], None]) -> None:
        """`changed` is called with the topic of each change."""
        self._spawn, self._changed = spawn, changed
        self._claims = Informer(client, PERSISTENTVOLUMECLAIMS, InformerOptions(keep=_slim, optional=True), self)
        self._classes = Informer(client, STORAGECLASSES, InformerOptions(optional=True), self)
        self._started = self._known = False

    def check(self, pod: views.Pod) -> None:
        """Raises VolumesNotReady or ObjectUnreadable."""
        try:
            for name, generated in _names(pod):
                self._check(pod, name, generated)
        except SHAPE_ERRORS as error:
            raise ObjectUnreadable(
                f"a volume of the pod, or its claim, has a field of the wrong shape: {error}"
            ) from None

    def _check(self, pod: views.Pod, name: str, generated: bool) -> None:
        self._start()
        if not self._known:
            raise VolumesNotReady("PersistentVolumeClaims are not known yet", frozenset((VOLUMES,)), expected=True)
        if self._claims.unserved.is_set():
            return
        key = join_key(namespace_of(pod), name)
        claim = self._claims.items.get(key)
        if why := self._fault(pod, name, claim, generated):
            raise VolumesNotReady(why, frozenset((VOLUMES, _volume_topic(key))))

    def _fault(self, pod: views.Pod, name: str, claim: views.PersistentVolumeClaim | None, generated: bool) -> str:
        """Return why a pod with this claim cannot run anywhere, in upstream's words; empty if it can."""
        if claim is None and generated:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        spec = claim.get("spec") or {}
        volume = spec.get("volumeName") or ""
        if (claim.get("status") or {}).get("phase") == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if terminating(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if generated and not is_owned_by(claim, pod):
            return f"PVC {key_of(claim)} was not created for pod {key_of(pod)} (pod is not owner)"
        if volume and BOUND in annotations_of(claim):
            return ""
        return "" if not volume and self._is_bound_late(claim) else "pod has unbound immediate PersistentVolumeClaims"

    def _is_bound_late(self, claim: views.PersistentVolumeClaim) -> bool:
        name = annotations_of(claim).get(CLASS) or (claim.get("spec") or {}).get("storageClassName") or ""
        return (self._classes.items.get(name) or {}).get("volumeBindingMode") == "WaitForFirstConsumer"

    # following

    def _start(self) -> None:
        if not self._started:
            self._started = True
            for informer in (self._claims, self._classes):
                self._spawn(informer.run(), "informer of volumes")
            self._spawn(self._wait_known(), "volume claims")

    async def _wait_known(self) -> None:
        await asyncio.gather(self._claims.wait_known(), self._classes.wait_known())
        self._known = True
        self._changed(VOLUMES)

    def on_add(self, obj: views.PersistentVolumeClaim) -> None:
        self._changed(_volume_topic(key_of(obj)) if namespace_of(obj) else VOLUMES)

    def on_delete(self, obj: views.PersistentVolumeClaim) -> None:
        self.on_add(obj)


def _names(pod: views.Pod) -> Iterator[tuple[str, bool]]:
    """Yield the names of the pod's claims; True for those made from a template of an ephemeral volume."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            yield str(claim["claimName"]), False
        elif volume.get("ephemeral") is not None:
            yield f"{name_of(pod)}-{volume['name']}", True


def _slim(claim: views.PersistentVolumeClaim) -> Object:
    kept = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "ownerReferences")
    notes = fields_of(annotations_of(claim), (BOUND, CLASS))
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    return {
        "metadata": {**fields_of(meta(claim), kept), "annotations": notes},
        "spec": fields_of(spec, ("volumeName", "storageClassName")),
        "status": {"phase": status.get("phase")},
    }
