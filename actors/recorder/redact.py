"""Leave secrets out of objects of the API before they are recorded.

Only resources of RECORDED are followed at all, so no Secret, ConfigMap, token, or certificate request is ever read.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from protocols.kinds.table import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICEPATCHES,
    RESOURCESLICES,
)
from protocols.kube.meta import CONTAINER_LISTS, LAST_APPLIED, Object, meta
from protocols.messages.calls import HIDDEN

RECORDED = (PODS, NODES, RESOURCECLAIMS, RESOURCESLICES, DEVICECLASSES, RESOURCESLICEPATCHES, DEVICETAINTRULES)


def redacted(obj: Object) -> Object:
    """Return the object, changed in place: without values of environment variables and copies of the manifest."""
    metadata = meta(obj)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        annotations[LAST_APPLIED] = HIDDEN
    if not metadata.get("finalizers"):
        metadata.pop("managedFields", None)
    for variable in _variables(obj.get("spec")):
        if variable.get("value"):
            variable["value"] = HIDDEN
    return obj


def _variables(spec: Any) -> Iterator[dict[str, Any]]:
    if isinstance(spec, dict):
        for kind in CONTAINER_LISTS:
            for container in _maps(spec.get(kind)):
                yield from _maps(container.get("env"))


def _maps(value: Any) -> Iterable[dict[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()
