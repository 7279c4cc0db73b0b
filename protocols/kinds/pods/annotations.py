"""Annotations that mean something to the server: of mirror pods, AppArmor, seccomp and the cost of a pod's deletion.

Messages equal upstream's.
"""

import re
from collections.abc import Iterator
from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid
from protocols.kinds.check.table import causes_of
from protocols.kinds.check.values import descending_faults
from protocols.kinds.pods.spec.security import apparmor
from protocols.kinds.pods.spec.systems import every_container
from protocols.kube.meta import CONTAINER_LISTS, Object, annotations_of
from protocols.kube.objects import MIRROR, at, is_mirror, items, text
from protocols.kube.pods import DELETION_COST

PATH = "metadata.annotations"
MIRROR_FIELD = f"{PATH}[{MIRROR}]"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
PROFILES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
SECCOMP_PROFILES = {**PROFILES, "docker/default": "RuntimeDefault"}
LOCAL = "localhost/"
_COST = re.compile(r"0|-?\d{1,10}", re.ASCII)


def annotation_causes(obj: Object, path: str = PATH, before: Object | None = None) -> list[Cause]:
    """Check the annotations of a pod or template; those that are as `before` may stay as they are."""
    names = {container.get("name") for container in _containers(obj)}
    causes: list[Cause] = []
    for key, value in annotations_of(obj).items():
        if before is not None and before.get(key) == value:
            continue
        if key == DELETION_COST and not _is_cost(value):
            causes.append(invalid(f"{path}[{key}]", value, "must be a 32bit integer"))
        elif key == SECCOMP_POD or key.startswith(SECCOMP):
            causes += [invalid(f"{path}.{key}", value, fault) for fault in _seccomp_faults(value)]
        elif key.startswith(APPARMOR):
            causes += _apparmor_causes(f"{path}[{key}]", key.removeprefix(APPARMOR), value, names)
    return causes


def _containers(obj: Object) -> list[Object]:
    return [container for field in CONTAINER_LISTS for container in items(obj, "spec", field)]


def _is_cost(value: str) -> bool:
    """Return True for a number as upstream reads it: of 32 bits, without a plus sign or leading zeros."""
    return bool(_COST.fullmatch(value)) and (value == "0" or value[0] != "0") and -(2**31) <= int(value) < 2**31


def _seccomp_faults(value: str) -> list[str]:
    if value.startswith(LOCAL):
        return descending_faults(value.removeprefix(LOCAL))
    return [] if value in SECCOMP_PROFILES else ["must be a valid seccomp profile"]


def _apparmor_causes(path: str, container: str, value: str, names: set[Any]) -> list[Cause]:
    causes = [] if container in names else [invalid(path, container, "container not found")]
    if value and value not in PROFILES and not value.startswith(LOCAL):
        causes.append(invalid(path, value, f'invalid AppArmor profile name: "{value}"'))
    return causes


def profile_causes(obj: Object, path: str = "spec") -> Iterator[Cause]:
    """Check that profiles of a new pod or a template, named by annotations and by fields, are the same."""
    given, spec = annotations_of(obj), obj.get("spec") or {}
    if not given:
        return
    of_pod: Object = spec.get("securityContext") or {}
    yield from _unlike(f"{path}.securityContext.seccompProfile", given.get(SECCOMP_POD), of_pod.get("seccompProfile"))
    for place, container in every_container(path, spec):
        own, name = container.get("securityContext") or {}, container.get("name")
        yield from _unlike(
            f"{place}.securityContext.seccompProfile", given.get(f"{SECCOMP}{name}"), own.get("seccompProfile")
        )
        if text(spec, "os", "name") != "windows":
            profile = own.get("appArmorProfile") or of_pod.get("appArmorProfile")
            yield from _unlike(f"{place}.securityContext.appArmorProfile", given.get(f"{APPARMOR}{name}"), profile)


def _unlike(path: str, value: str | None, profile: Object | None) -> Iterator[Cause]:
    """Yield the field that differs from the annotation `value`."""
    if value is None or profile is None:
        return
    kind, known = ("seccomp", SECCOMP_PROFILES) if path.endswith("seccompProfile") else ("apparmor", PROFILES)
    chosen = profile.get("type")
    if chosen not in PROFILES.values() and chosen != "Localhost":
        return
    if chosen != ("Localhost" if value.startswith(LOCAL) else known.get(value)):
        yield forbidden(f"{path}.type", f"{kind} type in annotation and field must match")
    elif chosen == "Localhost" and value.removeprefix(LOCAL) != profile.get("localhostProfile"):
        yield forbidden(f"{path}.localhostProfile", f"{kind} profile in annotation and field must match")


def apply_apparmor(pod: Object) -> None:
    """Set the profiles of a new pod's containers that only annotations name."""
    given = annotations_of(pod)
    if text(pod, "spec", "os", "name") == "windows" or not any(key.startswith(APPARMOR) for key in given):
        return
    of_pod = at(pod, "spec", "securityContext", "appArmorProfile")
    for container in _containers(pod):
        profile = _profile(given.get(f"{APPARMOR}{container.get('name')}") or "")
        if profile not in (None, of_pod) and at(container, "securityContext", "appArmorProfile") is None:
            container["securityContext"] = {**(container.get("securityContext") or {}), "appArmorProfile": profile}


def _profile(value: str) -> Object | None:
    """Return the field for an annotation; None for an invalid one."""
    if value in PROFILES:
        return {"type": PROFILES[value]}
    profile = {"type": "Localhost", "localhostProfile": value.removeprefix(LOCAL)}
    return profile if value.startswith(LOCAL) and not causes_of(apparmor, "", profile) else None


def mirror_causes(pod: Object) -> list[Cause]:
    """Report a mirror pod without a node."""
    if not is_mirror(pod) or text(pod, "spec", "nodeName"):
        return []
    value = annotations_of(pod)[MIRROR]
    return [invalid(MIRROR_FIELD, value, "must set spec.nodeName if mirror pod annotation is set")]


def annotation_change_causes(new: Object, old: Object) -> list[Cause]:
    """Return the faults of changed annotations. Call it on every path that writes metadata."""
    now, before, causes = annotations_of(new), annotations_of(old), list[Cause]()
    for key in {**before, **now}:
        kind = "mirror pod annotation" if key == MIRROR else "AppArmor annotations" if key.startswith(APPARMOR) else ""
        if kind and now.get(key) != before.get(key):
            verb = "remove or update" if key in before else "add"
            causes.append(forbidden(f"{PATH}[{key}]", f"may not {verb} {kind}"))
    return causes + mirror_causes(new) + annotation_causes(new, before=before)
