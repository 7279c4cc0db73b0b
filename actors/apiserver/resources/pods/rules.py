"""Validate pods as far as the scheduler and the node depend on it. Messages equal upstream's."""

import re
from collections.abc import Iterable
from typing import Any, TypeGuard

from actors.apiserver.api.causes import Cause, duplicate, forbidden, invalid, not_found, required, unsupported
from actors.apiserver.api.objects import MIRROR, at, is_mirror, items, text
from actors.apiserver.resources.dra.names import class_causes, label_causes
from actors.apiserver.resources.pods.whole import whole_causes
from protocols.kube.meta import Object
from protocols.kube.quantity import parse_quantity

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]?)")
NATIVE = ("cpu", "memory", "ephemeral-storage", "storage", "pods")
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def pod_causes(pod: Object) -> list[Cause]:
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return [required("spec.containers")]
    causes = _spec_causes(spec)
    if not items(spec, "containers"):
        causes.append(required("spec.containers"))
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        causes += _list_type(spec, field)
        for index, container in enumerate(items(spec, field)):
            causes += _container_causes(f"spec.{field}[{index}]", container, seen)
    if "resources" in spec:
        causes += resource_causes("spec.resources", spec) or whole_causes(spec)
    return causes


def _spec_causes(spec: Object) -> list[Cause]:
    causes = []
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        policies = ("Always", "OnFailure", "Never")
        causes.append(unsupported("spec.restartPolicy", spec.get("restartPolicy"), policies))
    grace = spec.get("terminationGracePeriodSeconds")
    if not _is_int(grace) or grace < 0:
        causes.append(invalid("spec.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0"))
    for field, kind, wanted in (("nodeSelector", dict, "a map"), ("nodeName", str, "a string")):
        if not isinstance(spec.get(field, kind()), kind):
            causes.append(invalid(f"spec.{field}", spec[field], f"must be {wanted}"))
    return causes


def _list_type(spec: Object, field: str) -> list[Cause]:
    value = spec.get(field)
    if value is None or (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        return []
    return [invalid(f"spec.{field}", value, "must be a list of objects")]


def _container_causes(path: str, container: Object, seen: set[str]) -> list[Cause]:
    causes, name = container_words(path, container), container.get("name")
    if isinstance(name, str) and name in seen:
        causes.append(duplicate(f"{path}.name", name))
    elif isinstance(name, str):
        seen.add(name)
    return causes + resource_causes(f"{path}.resources", container)


def container_words(path: str, container: Object) -> list[Cause]:
    """Validate the fields common to every kind of container."""
    causes, name = [], container.get("name")
    if not name:
        causes.append(required(f"{path}.name"))
    elif not isinstance(name, str) or len(name) > 63 or not LABEL.fullmatch(name):
        causes.append(invalid(f"{path}.name", name, LABEL_TEXT))
    if not isinstance(container.get("image"), str) or not container["image"].strip():
        causes.append(required(f"{path}.image"))
    for field in ("command", "args"):
        if not _is_strings(container.get(field)):
            causes.append(invalid(f"{path}.{field}", container[field], "must be a list of strings"))
    policy = container.get("imagePullPolicy")
    if policy not in ("Always", "IfNotPresent", "Never"):
        causes.append(unsupported(f"{path}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never")))
    return causes + _env_causes(f"{path}.env", container)


def _env_causes(path: str, container: Object) -> list[Cause]:
    return [
        required(f"{path}[{index}].name") for index, env in enumerate(items(container, "env")) if not env.get("name")
    ]


def resource_causes(path: str, container: Object) -> list[Cause]:
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return [invalid(path, resources, "must be an object")]
    causes = []
    for side in ("limits", "requests"):
        values = resources.get(side, {})
        if not isinstance(values, dict):
            causes.append(invalid(f"{path}.{side}", values, "must be a map of quantities"))
            continue
        for name, value in values.items():
            causes += _quantity_causes(f"{path}.{side}[{name}]", name, value)
    return causes or _pair_causes(path, resources.get("requests", {}), resources.get("limits", {}))


def _quantity_causes(path: str, name: str, value: Any) -> list[Cause]:
    text = str(value)
    if isinstance(value, bool) or not QUANTITY.fullmatch(text):
        return [invalid(path, value, QUANTITY_TEXT)]
    if text.startswith("-"):
        return [invalid(path, text, "must be greater than or equal to 0")]
    if is_extended(name) and not re.fullmatch(r"\+?\d+(k|M|G|[eE]\d+)?", text):
        return [invalid(path, text, "must be an integer")]
    return []


def _pair_causes(path: str, requests: Object, limits: Object) -> list[Cause]:
    """Check requests against limits.

    Extended resources cannot be overcommitted: request and limit must be equal. Other requests must not
    exceed the limit.
    """
    causes = []
    for name in requests.keys() & limits.keys():
        if not is_extended(name) and parse_quantity(str(requests[name])) > parse_quantity(str(limits[name])):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid(f"{path}.requests", str(requests[name]), text))
    for name in _extended({**requests, **limits}):
        if name not in limits:
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif str(requests.get(name)) != str(limits[name]):
            text = f"must be equal to {name} limit of {limits[name]}"
            causes.append(invalid(f"{path}.requests", str(requests.get(name)), text))
    return causes


def is_extended(name: str) -> bool:
    return name not in NATIVE and not name.startswith("hugepages-") and "/" in name


def _extended(names: Iterable[str]) -> list[str]:
    return [name for name in names if is_extended(name)]


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_strings(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def spec_change_causes(new: Object, old: Object) -> list[Cause]:
    """Allow changes to images, a shorter deadline, added tolerations and removed scheduling gates only."""
    causes = _deadline_causes(new.get("spec") or {}, old.get("spec") or {})
    if _frozen(new.get("spec") or {}) != _frozen(old.get("spec") or {}) or not _tolerations_kept(new, old):
        text = (
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        causes.append(forbidden("spec", text))
    return causes


def _frozen(spec: Object) -> Object:
    mutable = ("tolerations", "activeDeadlineSeconds", "schedulingGates")
    kept = {key: value for key, value in spec.items() if key not in mutable}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{k: v for k, v in container.items() if k != "image"} for container in items(spec, field)]
    return kept


def _tolerations_kept(new: Object, old: Object) -> bool:
    now = items(new, "spec", "tolerations")
    gates_before = items(old, "spec", "schedulingGates")
    gates_lifted_only = all(gate in gates_before for gate in items(new, "spec", "schedulingGates"))
    return all(toleration in now for toleration in items(old, "spec", "tolerations")) and gates_lifted_only


def _deadline_causes(new: Object, old: Object) -> list[Cause]:
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if _is_int(before) and (not _is_int(after) or after > before):
        return [invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")]
    return []


SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
NAMES = "`resourceClaimName`, `resourceClaimTemplateName`"


def claim_causes(pod: Object) -> list[Cause]:
    path, claims = "spec.resourceClaims", items(pod, "spec", "resourceClaims")
    if claims and is_mirror(pod):
        return [forbidden(path, "static pods do not support resource claims")]
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name = claim.get("name") or ""
        causes += [duplicate(f"{path}[{index}].name", name)] if name in seen else _claim(f"{path}[{index}]", claim)
        seen.add(name)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(items(pod, "spec", field)):
            causes += _used(f"spec.{field}[{index}].resources.claims", container, seen)
    return causes


def _claim(path: str, claim: Object) -> list[Cause]:
    causes = label_causes(f"{path}.name", claim.get("name") or "")
    given = [source for source in SOURCES if claim.get(source) is not None]
    if not given:
        return [*causes, invalid(path, claim, f"must specify one of: {NAMES}")]
    if len(given) > 1:
        return [*causes, invalid(path, claim, f"at most one of {NAMES} may be specified")]
    return causes + class_causes(f"{path}.{given[0]}", claim[given[0]])


def _used(path: str, container: Object, names: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    seen = set()
    for index, use in enumerate(items(container, "resources", "claims")):
        name, request = use.get("name") or "", use.get("request") or ""
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        elif (name, request) in seen:
            causes.append(duplicate(f"{path}[{index}]", f"{name}/{request}" if request else name))
        elif name not in names:
            causes.append(not_found(f"{path}[{index}].name", name))
        seen.add((name, request))
    return causes


MIRROR_FIELD = f"metadata.annotations[{MIRROR}]"


def mirror_causes(pod: Object) -> list[Cause]:
    """Return the faults of a new pod's annotation."""
    if not is_mirror(pod) or text(pod, "spec", "nodeName"):
        return []
    value = at(pod, "metadata", "annotations", MIRROR)
    return [invalid(MIRROR_FIELD, value, "must set spec.nodeName if mirror pod annotation is set")]


def mirror_change_causes(new: Object, old: Object) -> list[Cause]:
    """Return the faults of a changed annotation. Call it on every path that writes metadata."""
    if not is_mirror(old):
        return [forbidden(MIRROR_FIELD, "may not add mirror pod annotation")] if is_mirror(new) else []
    now = (at(new, "metadata", "annotations") or {}).get(MIRROR)
    same = is_mirror(new) and now == at(old, "metadata", "annotations", MIRROR)
    return [] if same else [forbidden(MIRROR_FIELD, "may not remove or update mirror pod annotation")]
