"""Reading and writing the common parts of plain JSON objects: metadata, keys, conditions."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from protocols.kinds import views

UNROUTED = "nodeplane.dev/unrouted"
"""Annotation of a service whose clusterIP leads nowhere: pods get no variables of it."""
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
"""Label of an EndpointSlice: the service that it belongs to."""
SLICE_MANAGER_LABEL, SLICE_MANAGER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
"""Label of the EndpointSlices that the controller makes of pods, and its value."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with the whole manifest that `kubectl apply` was given."""
ContainerList = Literal["containers", "initContainers", "ephemeralContainers"]
CONTAINER_LISTS: tuple[ContainerList, ...] = ("containers", "initContainers", "ephemeralContainers")
"""Fields of a pod's spec that hold containers."""
StatusList = Literal["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
STATUS_LISTS: tuple[StatusList, ...] = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
"""Fields of its status with their states, in the same order."""
Object = dict[str, Any]
"""One API object as plain JSON values."""


def meta(obj: Mapping[str, Any]) -> views.ObjectMeta:
    """Return the object's metadata, or an empty map that is not attached to it."""
    metadata: views.ObjectMeta | None = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def fields_of(obj: Mapping[str, Any], names: Iterable[str]) -> Object:
    """Return those of the fields that the object has."""
    return {name: obj[name] for name in names if name in obj}


def name_of(obj: Mapping[str, Any]) -> str:
    """Return metadata.name; empty if the object has none."""
    return str(meta(obj).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return metadata.namespace; empty for a cluster-scoped object."""
    return str(meta(obj).get("namespace") or "")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return metadata.uid; empty if the object has none."""
    return str(meta(obj).get("uid") or "")


def key_of(obj: Mapping[str, Any]) -> str:
    """Return `NAMESPACE/NAME`, or NAME alone for a cluster-scoped object."""
    return join_key(namespace_of(obj), name_of(obj))


def join_key(namespace: str, name: str) -> str:
    """Return `NAMESPACE/NAME`, or NAME alone for a cluster-scoped object."""
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """Return namespace and name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def version_of(obj: Mapping[str, Any]) -> str:
    """resourceVersion: opaque, compare for equality only."""
    return str(meta(obj).get("resourceVersion") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata.labels, the object's own map; a new empty one if it has none."""
    return meta(obj).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata.annotations, the object's own map; a new empty one if it has none."""
    return meta(obj).get("annotations") or {}


def controller_of(obj: Mapping[str, Any]) -> views.OwnerReference | None:
    """Return the reference to the owner that controls the object."""
    owners = meta(obj).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def event_time(event: Mapping[str, Any]) -> str:
    """Return the last occurrence of an Event, as the API has it; "" if it has no time."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or meta(event).get("creationTimestamp") or "")


def terminating(obj: Mapping[str, Any]) -> bool:
    """Return True once a deletion was requested (deletionTimestamp is set); finalizers may still hold the object."""
    return bool(meta(obj).get("deletionTimestamp"))


def new_uid() -> str:
    """Return a random UUID, as the API server gives one to each object and audit event."""
    return str(uuid.uuid4())


def condition(obj: Mapping[str, Any], kind: str) -> views.Condition | None:
    """Return the status condition of one type; None if there is none."""
    conditions: Iterable[views.Condition] = (obj.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry.get("type") == kind), None)


def condition_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Return True if status.conditions has `kind` with status "True"; an absent or Unknown one is not true."""
    entry = condition(obj, kind)
    return entry is not None and entry.get("status") == "True"


def object_reference(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return an ObjectReference to `obj`, as events carry it; empty fields are left out."""
    reference = {
        "apiVersion": str(obj.get("apiVersion") or ""),
        "kind": str(obj.get("kind") or ""),
        "namespace": namespace_of(obj),
        "name": name_of(obj),
        "uid": uid_of(obj),
        "resourceVersion": version_of(obj),
    }
    return {key: value for key, value in reference.items() if value}
