"""The ephemeralcontainers subresource: containers can be added to a running pod, not changed or removed."""

from collections.abc import Iterator
from typing import Any

from actors.apiserver.api.causes import Cause, duplicate, forbidden, not_found
from actors.apiserver.api.objects import Obj, at, is_mirror, items
from actors.apiserver.resources.pods.defaults import default_words
from actors.apiserver.resources.pods.rules import container_words

FIELD = "spec.ephemeralContainers"
KEY = "ephemeralContainers"
NOT_THEIRS = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy")
NOT_THEIRS_EITHER = ("restartPolicy", "restartPolicyRules")
REFUSED = "cannot be set for an Ephemeral Container"


def keep_ephemeral(new: Obj, old: Obj) -> None:
    """Restrict the change to ephemeral containers."""
    wanted = at(new, "spec", KEY)
    new.clear()
    new.update({**old, "metadata": dict(old["metadata"]), "spec": dict(old["spec"])})
    new["spec"].pop(KEY, None)
    if wanted is not None:
        new["spec"][KEY] = wanted
    for container in items(new, "spec", KEY):
        default_words(container)


def ephemeral_causes(new: Obj, old: Obj) -> list[Cause]:
    if is_mirror(old):
        return [forbidden("", "static pods do not support ephemeral containers")]
    given = at(new, "spec", KEY)
    if given is not None and (not isinstance(given, list) or not all(isinstance(item, dict) for item in given)):
        return [forbidden(FIELD, "must be a list of objects")]
    return [*_each(new), *_kept(items(new, "spec", KEY), items(old, "spec", KEY))]


def created_causes(pod: Obj) -> list[Cause]:
    return [forbidden(FIELD, "cannot be set on create")] if at(pod, "spec", KEY) else []


def _each(pod: Obj) -> Iterator[Cause]:
    others = {c.get("name") for field in ("containers", "initContainers") for c in items(pod, "spec", field)}
    seen: set[Any] = set(others)
    for index, container in enumerate(items(pod, "spec", KEY)):
        path, name = f"{FIELD}[{index}]", container.get("name")
        yield from container_words(path, container)
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


def _set_fields(container: Obj) -> Iterator[str]:
    yield from (field for field in (*NOT_THEIRS, *NOT_THEIRS_EITHER) if container.get(field))


def _kept(new: list[Obj], old: list[Obj]) -> Iterator[Cause]:
    now = {container.get("name"): container for container in new}
    for container in old:
        name = container.get("name")
        if name not in now:
            yield forbidden(FIELD, f'existing ephemeral containers "{name}" may not be removed\n')
        elif now[name] != container:
            yield forbidden(FIELD, f'existing ephemeral containers "{name}" may not be changed\n')
