"""The resize and ephemeralcontainers subresources of running pods.

A resize changes cpu and memory of containers, and must not change the QoS class. Ephemeral containers can be added, not
changed or removed.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, not_found
from protocols.kinds.check.table import causes_of
from protocols.kinds.pods.defaults import qos_class
from protocols.kinds.pods.rules import image
from protocols.kinds.pods.spec.containers import Owner, container_words
from protocols.kinds.pods.spec.resources import ClaimNames, resource_causes
from protocols.kinds.pods.spec.volumes import volume_causes
from protocols.kinds.pods.whole import has_whole
from protocols.kube.meta import Object
from protocols.kube.objects import at, is_mirror, items, text

LISTS = ("containers", "initContainers")
MUTABLE = ("cpu", "memory")
FIELDS = ("resources", "resizePolicy")
ONLY = "only cpu and memory resources are mutable"


def keep_resize(new: Object, old: Object) -> None:
    """Restrict the change to resources and resize policies, unless containers came, went or moved: that is rejected."""
    if any(_order_causes(new, old)):
        return
    wanted = {field: {c.get("name"): c for c in items(new, "spec", field)} for field in LISTS}
    new.clear()
    new.update({**old, "metadata": dict(old["metadata"]), "spec": deepcopy(old["spec"])})
    for field in LISTS:
        for container in items(new, "spec", field):
            _take(container, wanted[field].get(container.get("name")))


def _take(container: Object, given: Object | None) -> None:
    for field in FIELDS:
        if given is not None and field in given:
            container[field] = given[field]


def resize_causes(new: Object, old: Object) -> list[Cause]:
    """Check a resize: only CPU and memory of containers change, and the QoS class stays."""
    if is_mirror(old):
        return [forbidden("", "static pods cannot be resized")]
    if has_whole(old):
        return [forbidden("", "pods with pod-level resources cannot be resized")]
    if text(old, "spec", "os", "name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    if moved := list(_order_causes(new, old)):
        return moved
    wrong = [cause for field in LISTS for cause in _containers(field, new, old)]
    if not wrong and (quality := qos_class(new)) != (at(old, "status", "qosClass") or qos_class(old)):
        return [invalid("spec", quality, "Pod QOS Class may not change as a result of resizing")]
    return wrong


def _order_causes(new: Object, old: Object) -> Iterator[Cause]:
    for field in LISTS:
        now, before = ([text(each, "name") for each in items(pod, "spec", field)] for pod in (new, old))
        if len(now) != len(before):
            yield forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (name, was) in enumerate(zip(now, before, strict=True)):
            if name != was:
                yield forbidden(f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize")


def _containers(field: str, new: Object, old: Object) -> Iterator[Cause]:
    names = ClaimNames(new)
    for index, (now, before) in enumerate(zip(items(new, "spec", field), items(old, "spec", field), strict=True)):
        path = f"spec.{field}[{index}].resources"
        if now.get("resizePolicy") != before.get("resizePolicy"):
            yield forbidden("spec", ONLY)
        if now.get("resources") == before.get("resources"):
            continue
        causes = names.use_causes(f"{path}.claims", items(now, "resources", "claims"))
        yield from causes + resource_causes(path, now) or _changed(
            path, now["resources"], before.get("resources") or {}
        )


def _changed(path: str, new: Object, old: Object) -> Iterator[Cause]:
    others = new.get("claims") != old.get("claims")
    for side in ("requests", "limits"):
        now, before = new.get(side) or {}, old.get(side) or {}
        if any(name not in now for name in before):
            yield forbidden(f"{path}.{side}", f"resource {side} cannot be removed")
        others = others or any(now.get(name) != before.get(name) for name in {*now, *before} - set(MUTABLE))
    if others:
        yield forbidden("spec", ONLY)


FIELD = "spec.ephemeralContainers"
KEY = "ephemeralContainers"
NOT_THEIRS = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy")
NOT_THEIRS_EITHER = ("restartPolicy", "restartPolicyRules")
REFUSED = "cannot be set for an Ephemeral Container"


def keep_ephemeral(new: Object, old: Object) -> None:
    """Restrict the change to ephemeral containers."""
    wanted = at(new, "spec", KEY)
    new.clear()
    new.update({**old, "metadata": dict(old["metadata"]), "spec": dict(old["spec"])})
    new["spec"].pop(KEY, None)
    if wanted is not None:
        new["spec"][KEY] = wanted


def ephemeral_causes(new: Object, old: Object) -> list[Cause]:
    """Check that ephemeral containers are only added: one that was accepted never changes."""
    if is_mirror(old):
        return [forbidden("", "static pods do not support ephemeral containers")]
    given = at(new, "spec", KEY)
    if given is not None and (not isinstance(given, list) or not all(isinstance(item, dict) for item in given)):
        return [forbidden(FIELD, "must be a list of objects")]
    return [*_each(new), *_kept(items(new, "spec", KEY), items(old, "spec", KEY))]


def created_causes(pod: Object) -> list[Cause]:
    """Reject ephemeral containers of a new pod, and a node that is set while gates hold the pod back."""
    causes = [forbidden(FIELD, "cannot be set on create")] if at(pod, "spec", KEY) else []
    if text(pod, "spec", "nodeName") and at(pod, "spec", "schedulingGates"):
        causes.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def _each(pod: Object) -> Iterator[Cause]:
    others = {c.get("name") for field in ("containers", "initContainers") for c in items(pod, "spec", field)}
    seen: set[Any] = set(others)
    _, volumes = volume_causes("spec.volumes", items(pod, "spec", "volumes"), "")
    owner = Owner(volumes, "Never", host_users=at(pod, "spec", "hostUsers") is not False)
    for index, container in enumerate(items(pod, "spec", KEY)):
        path, name = f"{FIELD}[{index}]", container.get("name")
        yield from container_words(path, container, owner)
        yield from causes_of(image, f"{path}.image", container.get("image") or "")
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        yield from (forbidden(f"{path}.{field}", REFUSED) for field in _set_fields(container))
        target = container.get("targetContainerName")
        if target and target not in others:
            yield not_found(f"{path}.targetContainerName", target)
        for place, mount in enumerate(items(container, "volumeMounts")):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden(f"{path}.volumeMounts[{place}].{field}", REFUSED)


def _set_fields(container: Object) -> Iterator[str]:
    yield from (field for field in (*NOT_THEIRS, *NOT_THEIRS_EITHER) if container.get(field))


def _kept(new: list[Object], old: list[Object]) -> Iterator[Cause]:
    now = {container.get("name"): container for container in new}
    for container in old:
        name = container.get("name")
        if name not in now:
            yield forbidden(FIELD, f'existing ephemeral containers "{name}" may not be removed\n')
        elif now[name] != container:
            yield forbidden(FIELD, f'existing ephemeral containers "{name}" may not be changed\n')
