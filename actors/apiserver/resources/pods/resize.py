"""The resize subresource: cpu and memory of running containers. The QoS class must not change."""

from collections.abc import Iterator
from copy import deepcopy

from actors.apiserver.api.causes import Cause, forbidden, invalid
from actors.apiserver.api.objects import Obj, at, is_mirror, items
from actors.apiserver.resources.pods.defaults import default_requests, qos_class
from actors.apiserver.resources.pods.rules import resource_causes
from actors.apiserver.resources.pods.whole import has_whole

LISTS = ("containers", "initContainers")
MUTABLE = ("cpu", "memory")
FIELDS = ("resources", "resizePolicy")


def keep_resize(new: Obj, old: Obj) -> None:
    """Restrict the change to resources and resize policies of existing containers."""
    wanted = {field: {c.get("name"): c for c in items(new, "spec", field)} for field in LISTS}
    new.clear()
    new.update({**old, "metadata": dict(old["metadata"]), "spec": deepcopy(old["spec"])})
    for field in LISTS:
        for container in items(new, "spec", field):
            _take(container, wanted[field].get(container.get("name")))


def _take(container: Obj, given: Obj | None) -> None:
    for field in FIELDS:
        if given is None or field not in given:
            continue
        container[field] = given[field]
    default_requests(container)


def resize_causes(new: Obj, old: Obj) -> list[Cause]:
    if is_mirror(old):
        return [forbidden("", "static pods cannot be resized")]
    if has_whole(old):
        return [forbidden("", "pods with pod-level resources cannot be resized")]
    wrong = [cause for field in LISTS for cause in _containers(field, new, old)]
    if not wrong and (quality := qos_class(new)) != (at(old, "status", "qosClass") or qos_class(old)):
        return [invalid("spec", quality, "Pod QOS Class may not change as a result of resizing")]
    return wrong


def _containers(field: str, new: Obj, old: Obj) -> Iterator[Cause]:
    for index, (now, before) in enumerate(zip(items(new, "spec", field), items(old, "spec", field), strict=True)):
        path = f"spec.{field}[{index}].resources"
        if now.get("resources") == before.get("resources"):
            continue
        if causes := resource_causes(path, now):
            yield from causes
        elif field == "initContainers" and before.get("restartPolicy") != "Always":
            yield forbidden(path, "resources for non-sidecar init containers are immutable")
        else:
            yield from _changed(path, now["resources"], before.get("resources") or {})


def _changed(path: str, new: Obj, old: Obj) -> Iterator[Cause]:
    for side in ("requests", "limits"):
        now, before = new.get(side) or {}, old.get(side) or {}
        if any(name not in now for name in before):
            yield forbidden(f"{path}.{side}", f"resource {side} cannot be removed")
        if any(now.get(name) != before.get(name) for name in {*now, *before} - set(MUTABLE)):
            yield forbidden(f"{path}.{side}", "only cpu and memory resources are mutable")
    if new.get("claims") != old.get("claims"):
        yield forbidden(path, "only cpu and memory resources are mutable")
